//! Where things are.
//!
//! ```text
//!  snapshots/<snapshot>/       copies of disks
//!  volumes/<name>/             the disk of a volume, laid over nothing (below-volumes/)
//!  sandboxes/<id>/
//!    disk.img, disk/, root/   the workspace's disk, laid over its image (host-disk)
//!    agent/                   the agent's program, mounted read-only
//!    config.json              the bundle: what runsc is told
//!    workspace.json           what a resume needs to know
//!    volumes.json             the volumes that the workspace has; none where it has none
//!    sandbox.pid, runsc.log   what runsc says
//! ```

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use emergent_types::WorkspaceId;

use crate::snapshot::SnapshotFiles;
use crate::volume_disks::VolumeDisks;

/// What runsc is told.
pub(super) const CONFIG: &str = "config.json";
/// What a resume needs to know.
pub(super) const RECORD: &str = "workspace.json";
/// The volumes that a workspace has.
pub(super) const VOLUMES: &str = "volumes.json";
/// The process of the sandbox on the host.
pub(super) const PID: &str = "sandbox.pid";
/// What runsc complains of.
pub(super) const LOG: &str = "runsc.log";
/// Where the agent's program is mounted.
pub(super) const AGENT: &str = "agent";

/// Where things are.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    base: PathBuf,
}

impl Layout {
    pub(super) fn new(data_dir: &Path) -> Self {
        Self { base: data_dir.join("direct") }
    }

    /// What runsc knows of its sandboxes.
    pub(super) fn runsc(&self) -> PathBuf {
        self.base.join("runsc")
    }

    pub(super) fn images(&self) -> PathBuf {
        self.base.join("images")
    }

    pub(super) fn agents(&self) -> PathBuf {
        self.base.join("agents")
    }

    pub(super) fn templates(&self) -> PathBuf {
        self.base.join("templates")
    }

    pub(super) fn sandboxes(&self) -> PathBuf {
        self.base.join("sandboxes")
    }

    /// Everything of one workspace.
    pub(super) fn sandbox(&self, id: WorkspaceId) -> PathBuf {
        self.sandboxes().join(id.to_string())
    }

    /// Copies of disks.
    pub(super) fn snapshots(&self) -> SnapshotFiles {
        SnapshotFiles::new(self.base.join("snapshots"))
    }

    /// Volumes with names.
    pub(super) fn volume_disks(&self) -> VolumeDisks {
        VolumeDisks {
            volumes: self.base.join("volumes"),
            below: self.base.join("below-volumes"),
            templates: self.templates(),
        }
    }

    /// The workspaces that have something here, whole or not.
    pub(super) fn ids(&self) -> io::Result<Vec<WorkspaceId>> {
        match std::fs::read_dir(self.sandboxes()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
            Ok(entries) => {
                Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
            }
        }
    }
}

/// Makes a folder that is nobody else's, with those above it.
pub(super) fn private_folder(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).recursive(true).create(path)
}

/// Removes a file; none is success.
pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes a file so that it is there whole or not at all, readable for nobody else.
pub(super) fn write_file(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    remove_file(&partial)?;
    let mut file = std::fs::File::options().write(true).create_new(true).mode(mode).open(&partial)?;
    file.write_all(content)?;
    std::fs::rename(partial, path)
}

/// The same for what must be whole after a loss of power too.
pub(super) fn write_file_durably(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    write_file(path, content, mode)?;
    std::fs::File::open(path)?.sync_all()
}
