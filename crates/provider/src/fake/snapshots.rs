//! Snapshots of the fake: copies of folders.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use emergent_types::SnapshotId;
use tempfile::TempDir;
use tokio::sync::Mutex;

use crate::Snapshot;

/// What was copied, by name.
#[derive(Default)]
pub(super) struct FakeSnapshots {
    kept: Mutex<HashMap<SnapshotId, Kept>>,
}

struct Kept {
    snapshot: Snapshot,
    folder: TempDir,
}

impl FakeSnapshots {
    /// Copies a folder, unless there is a snapshot of that name already.
    pub(super) async fn take(&self, snapshot: Snapshot, from: &Path) -> io::Result<Snapshot> {
        let mut kept = self.kept.lock().await;
        if let Some(kept) = kept.get(&snapshot.id) {
            return Ok(kept.snapshot.clone());
        }
        let folder = tempfile::Builder::new().prefix("emergent-fake-").tempdir()?;
        copy(from, folder.path())?;
        kept.insert(snapshot.id, Kept { snapshot: snapshot.clone(), folder });
        Ok(snapshot)
    }

    pub(super) async fn find(&self, id: SnapshotId) -> Option<Snapshot> {
        self.kept.lock().await.get(&id).map(|kept| kept.snapshot.clone())
    }

    /// Copies a snapshot to a folder; says whether there is one.
    pub(super) async fn copy_to(&self, id: SnapshotId, to: &Path) -> io::Result<bool> {
        match self.kept.lock().await.get(&id) {
            Some(kept) => copy(kept.folder.path(), to).map(|()| true),
            None => Ok(false),
        }
    }

    pub(super) async fn remove(&self, id: SnapshotId) {
        self.kept.lock().await.remove(&id);
    }

    pub(super) async fn list(&self) -> Vec<Snapshot> {
        self.kept.lock().await.values().map(|kept| kept.snapshot.clone()).collect()
    }
}

/// Files, folders and links. Sockets are somebody's who is not copied.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            fs::create_dir(&target)?;
            copy(&entry.path(), &target)?;
            fs::set_permissions(&target, entry.metadata()?.permissions())?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(entry.path())?, &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
