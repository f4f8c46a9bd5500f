//! Ending a sandbox: with its disk kept (stop), in place and to go on (suspend, wake), or with everything (destroy).

use emergent_host_disk::{DiskError, LayeredDisk};
use emergent_provider::{Operation, ProviderError};
use emergent_types::WorkspaceId;

use super::host::Host;
use super::layout::{CONFIG, LOG, PID, RECORD, VOLUMES, remove_file};
use super::runsc::Status;
use super::{control_group, processes};

impl Host {
    /// See [`WorkspaceProvider::stop`](emergent_provider::WorkspaceProvider::stop).
    pub(super) async fn stop(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        if self.record(id).is_none() {
            return Err(self.not_found(id));
        }
        self.end(Operation::Stop, id).await?;
        self.set_disk_aside(Operation::Stop, id).await
    }

    /// Stops every process where it is, memory kept.
    pub(super) async fn suspend(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        let name = self.names.container(id);
        match self.status(Operation::Suspend, id).await? {
            Some(Status::Paused) => Ok(()),
            Some(Status::Running) => {
                let paused = self.runsc.pause(&name).await;
                paused.map_err(self.runsc_step(Operation::Suspend, id, "pause"))
            }
            Some(Status::Stopped | Status::Unfinished) => Err(self.not_running(id)),
            None if self.record(id).is_some() => Err(self.not_running(id)),
            None => Err(self.not_found(id)),
        }
    }

    /// Lets them go on. Asked first and looked at only where that fails: most often it stands still, and
    /// somebody waits.
    pub(super) async fn wake(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        let Err(error) = self.runsc.resume(&self.names.container(id)).await else { return Ok(()) };
        match self.status(Operation::Wake, id).await? {
            Some(Status::Running) => Ok(()),
            Some(Status::Paused) => Err(self.runsc_step(Operation::Wake, id, "let the sandbox go on")(error)),
            Some(Status::Stopped | Status::Unfinished) => Err(self.not_running(id)),
            None if self.record(id).is_some() => Err(self.not_running(id)),
            None => Err(self.not_found(id)),
        }
    }

    /// Everything of one sandbox, its folder last. What is not there is success.
    pub(super) async fn remove_everything(
        &self,
        operation: Operation,
        id: WorkspaceId,
    ) -> Result<(), ProviderError> {
        self.end(operation, id).await?;
        let folder = self.layout.sandbox(id);
        // First, so that what is half removed is not taken for something that could be resumed.
        let record = folder.join(RECORD);
        self.blocking(operation, id, "remove the record", move || remove_file(&record)).await?;
        self.set_disk_aside(operation, id).await?;
        self.blocking(operation, id, "remove the folder", move || {
            // Its volumes are its own for as long as anything of it could have used them.
            for name in [VOLUMES, CONFIG, LOG, PID] {
                let path = folder.join(name);
                remove_file(&path)?;
                remove_file(&path.with_extension(format!(
                    "{}.partial",
                    path.extension().unwrap_or_default().to_string_lossy()
                )))?;
            }
            remove_file(&folder.join(format!("{RECORD}.partial")))?;
            LayeredDisk::remove_folder(&folder).map_err(std::io::Error::other)
        })
        .await
    }

    /// Ends the sandbox, every stream into it, and what it has of the host but its disk. Without `runsc
    /// delete`, which waits until somebody has asked after the killed processes (seconds, under some first
    /// processes), and which could not help where runsc itself was killed.
    pub(super) async fn end(&self, operation: Operation, id: WorkspaceId) -> Result<(), ProviderError> {
        let (name, group) = (self.names.container(id), self.group(id));
        let (root_flag, state) = (self.runsc.root_flag(), self.layout.runsc());
        let folder = self.layout.sandbox(id);
        let ended = self.blocking(operation, id, "end its processes", move || {
            // A process that waits for a disk which a killed server has left frozen cannot be ended.
            match LayeredDisk::open(&folder) {
                Ok(_) | Err(DiskError::NotFound { .. }) => {}
                Err(error) => return Err(std::io::Error::other(error)),
            }
            processes::end_all(&root_flag, &name)?;
            control_group::remove(&group)?;
            forget(&state, &name)
        });
        let ended = ended.await;
        self.streams.end(id);
        ended?;
        self.disconnect(operation, id).await
    }
}

/// Where runsc puts the socket of a sandbox whose path would be too long in its own folder.
const SOCKET_FOLDERS: [&str; 3] = ["/var/run", "/run", "/tmp"];

/// Removes what runsc has written down of a sandbox: in its folder, which is ours alone, and its socket.
fn forget(state: &std::path::Path, name: &str) -> std::io::Result<()> {
    for folder in SOCKET_FOLDERS {
        remove_file(&std::path::Path::new(folder).join(format!("runsc-{name}.sock")))?;
    }
    let entries = match std::fs::read_dir(state) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().contains(name) {
            remove_file(&entry.path())?;
        }
    }
    Ok(())
}
