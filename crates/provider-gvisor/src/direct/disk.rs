//! The disk of a workspace: a file system of the asked size, laid over its image's root. What runsc has as
//! the root of a sandbox is that very mount, so everything that can be written ends with a true `ENOSPC`,
//! and all of it is kept.

use std::path::PathBuf;

use emergent_host_disk::{DiskError, Geometry, LayeredDisk};
use emergent_provider::{Operation, ProviderError, SandboxSpec};
use emergent_types::WorkspaceId;

use super::host::Host;
use super::layout::private_folder;
use super::{agent_folder, etc};

/// Folders that every workspace has, whatever its image.
const FOLDERS: [&str; 6] = ["workspace", "home", "root", "etc", "tmp", "run"];

impl Host {
    /// Makes a disk and lays it over a root. The workspace's folder is there.
    pub(super) async fn make_disk(&self, spec: &SandboxSpec, lower: PathBuf) -> Result<(), ProviderError> {
        let (id, folder, templates) = (spec.id, self.layout.sandbox(spec.id), self.layout.templates());
        let geometry = Geometry::for_size(spec.limits.disk.bytes());
        let hostname = id.hostname();
        self.on_disk(Operation::Create, id, "disk", move || {
            let disk = LayeredDisk::create(&folder, geometry, &templates)?;
            disk.mount(&lower)?;
            disk.top_folders(&FOLDERS)?;
            etc::complete(&disk.root(), &hostname).map_err(|error| DiskError::Step {
                step: "files of /etc",
                path: disk.root(),
                error,
            })
        })
        .await
    }

    /// Makes a disk that is a copy, and lays it over a root. The workspace's folder is there.
    pub(super) async fn make_disk_from(
        &self,
        snapshot: PathBuf,
        spec: &SandboxSpec,
        lower: PathBuf,
    ) -> Result<(), ProviderError> {
        let (id, folder) = (spec.id, self.layout.sandbox(spec.id));
        let geometry = Geometry::for_size(spec.limits.disk.bytes());
        let hostname = id.hostname();
        self.on_disk(Operation::Restore, id, "copy the disk", move || {
            let disk = LayeredDisk::create_larger_from_snapshot(&folder, &snapshot, geometry)?;
            disk.mount(&lower)?;
            disk.top_folders(&FOLDERS)?;
            etc::rename(&disk.root(), &hostname);
            Ok(())
        })
        .await
    }

    /// Lays a disk that was kept over its root again.
    pub(super) async fn mount_disk(&self, id: WorkspaceId, lower: PathBuf) -> Result<(), ProviderError> {
        let folder = self.layout.sandbox(id);
        self.on_disk(Operation::Resume, id, "mount the disk", move || {
            LayeredDisk::open(&folder)?.mount(&lower)
        })
        .await
    }

    /// Takes a disk and the agent's program out of their places; the disk is kept.
    pub(super) async fn set_disk_aside(
        &self,
        operation: Operation,
        id: WorkspaceId,
    ) -> Result<(), ProviderError> {
        let folder = self.layout.sandbox(id);
        self.on_disk(operation, id, "unmount the disk", move || {
            agent_folder::take_off(&folder).map_err(|error| DiskError::Step {
                step: "unmount the agent",
                path: folder.clone(),
                error,
            })?;
            match LayeredDisk::open(&folder) {
                Ok(disk) => disk.unmount().map(drop),
                Err(DiskError::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// Makes the folder of a workspace, with which it begins to exist.
    pub(super) async fn make_folder(
        &self,
        operation: Operation,
        id: WorkspaceId,
    ) -> Result<(), ProviderError> {
        let folder = self.layout.sandbox(id);
        self.blocking(operation, id, "folder", move || private_folder(&folder)).await
    }

    /// Runs work on a thread that may block.
    pub(super) async fn on_disk<T: Send + 'static>(
        &self,
        operation: Operation,
        id: WorkspaceId,
        step: &'static str,
        work: impl FnOnce() -> Result<T, DiskError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) if error.is_out_of_space() => {
                Err(ProviderError::Exhausted { provider: self.kind(), resource: "disk", id })
            }
            Ok(Err(DiskError::TooSlow { limit, .. })) => {
                Err(ProviderError::TimedOut { provider: self.kind(), operation, id, limit })
            }
            Ok(Err(error)) => Err(self.step(operation, id, step, error)),
            Err(panic) => Err(self.step(operation, id, step, panic)),
        }
    }
}
