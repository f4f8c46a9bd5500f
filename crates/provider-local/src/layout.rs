//! Names and places. Everything this provider makes outside its own process has a name that
//! is computed here from the installation's and the workspace's id, and from nothing else.
//!
//! ```text
//! <data_dir>/agents/<sha256>/emergent-agent         the agent's program
//! <data_dir>/local/templates/<hash>-<bytes>.img     formatted disks to copy from
//! <data_dir>/local/snapshots/<snapshot id>/         copies of disks
//! <data_dir>/local/<workspace id>/                  one sandbox:
//!     sandbox.json                                    what is known about it
//!     disk.img, or disk/                              everything it has written
//!     init.json                                       its first process, where that was
//!                                                     started without root
//!     agent.sock                                      where its agent listens
//! <cgroup hierarchy>/emergent-<installation>/<workspace id>/{launch,sandbox}
//! ```

use std::path::{Path, PathBuf};

use emergent_host_disk::DiskSnapshots;
use emergent_types::{InstallationId, WorkspaceId};

/// The agent's socket in a state folder.
pub(crate) const AGENT_SOCKET: &str = "agent.sock";
/// The disk in a state folder.
pub(crate) const DISK_IMAGE: &str = "disk.img";
/// The disk in a state folder where it is a folder itself.
pub(crate) const DISK_FOLDER: &str = "disk";
/// The first process of the latest launch without root, in a state folder.
pub(crate) const INIT: &str = "init.json";
/// The record in a state folder.
pub(crate) const RECORD: &str = "sandbox.json";
/// The agent's program in its folder.
pub(crate) const AGENT_PROGRAM: &str = "emergent-agent";

/// Where one installation keeps its sandboxes.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    data_dir: PathBuf,
    installation: InstallationId,
}

impl Layout {
    pub(crate) fn new(data_dir: PathBuf, installation: InstallationId) -> Self {
        Self { data_dir, installation }
    }

    pub(crate) fn installation(&self) -> InstallationId {
        self.installation
    }

    pub(crate) fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    pub(crate) fn agents(&self) -> PathBuf {
        self.data_dir.join("agents")
    }

    pub(crate) fn sandboxes(&self) -> PathBuf {
        self.data_dir.join("local")
    }

    pub(crate) fn templates(&self) -> PathBuf {
        self.sandboxes().join("templates")
    }

    /// Copies of disks.
    pub(crate) fn snapshots(&self) -> DiskSnapshots {
        DiskSnapshots::new(self.sandboxes().join("snapshots"))
    }

    pub(crate) fn sandbox(&self, id: WorkspaceId) -> PathBuf {
        self.sandboxes().join(id.to_string())
    }

    /// The cgroup that holds all sandboxes of this installation.
    pub(crate) fn installation_group(&self) -> String {
        format!("emergent-{}", self.installation.short())
    }

    /// The cgroup that holds everything of one sandbox.
    pub(crate) fn group(&self, id: WorkspaceId) -> String {
        format!("{}/{id}", self.installation_group())
    }
}
