//! Copies of layered disks: files below the data folder, each with its record. The same with Docker and
//! without.

use std::io;
use std::path::{Path, PathBuf};

use emergent_host_disk::{DiskError, DiskSnapshots, LayeredDisk};
use emergent_types::SnapshotId;

use super::Record;

/// A folder with copies of layered disks.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotFiles {
    kept: DiskSnapshots,
}

impl SnapshotFiles {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { kept: DiskSnapshots::new(folder) }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.kept.folder()
    }

    /// The disk of a whole one.
    pub(crate) fn disk(&self, id: SnapshotId) -> PathBuf {
        self.kept.disk(&id.to_string())
    }

    /// Copies the disk in a folder. Blocks.
    pub(crate) fn keep(&self, record: &Record, disk: &Path) -> Result<(), DiskError> {
        let content = serde_json::to_vec(&record.labels()).map_err(|error| DiskError::Step {
            step: "snapshot",
            path: disk.to_owned(),
            error: error.into(),
        })?;
        let disk = LayeredDisk::open(disk)?;
        self.kept.keep(&record.snapshot.id.to_string(), &content, |to| disk.snapshot(to))
    }

    /// A whole one.
    pub(crate) async fn find(&self, id: SnapshotId) -> io::Result<Option<Record>> {
        self.blocking(move |kept| read(kept, id)).await
    }

    /// All of them; those that are not whole have no record.
    pub(crate) async fn list(&self) -> io::Result<Vec<(SnapshotId, Option<Record>)>> {
        self.blocking(list).await
    }

    /// The images that the whole ones belong over. Blocks.
    pub(crate) fn images(&self) -> io::Result<Vec<String>> {
        let records = list(&self.kept)?.into_iter().filter_map(|(_, record)| record);
        Ok(records.map(|record| record.image).collect())
    }

    /// Whatever there is of one.
    pub(crate) async fn remove(&self, id: SnapshotId) -> io::Result<()> {
        self.blocking(move |kept| kept.remove(&id.to_string())).await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&DiskSnapshots) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let kept = self.kept.clone();
        let done = tokio::task::spawn_blocking(move || work(&kept)).await;
        done.unwrap_or_else(|panic| Err(io::Error::other(panic)))
    }
}

fn list(kept: &DiskSnapshots) -> io::Result<Vec<(SnapshotId, Option<Record>)>> {
    let ids = kept.names()?.into_iter().filter_map(|name| name.parse().ok());
    ids.map(|id| Ok((id, read(kept, id)?))).collect()
}

fn read(kept: &DiskSnapshots, id: SnapshotId) -> io::Result<Option<Record>> {
    Ok(kept.record(&id.to_string())?.and_then(|content| Record::from_file(id, &content)))
}
