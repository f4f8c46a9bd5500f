//! Disks of the asked size, laid over the image's root on the host.
//!
//! ```text
//!  data folder/containers/
//!    images/<hash>/         an image's root, unpacked once: the lower layer of all its workspaces
//!    templates/             formatted disks, one per size
//!    <provider>/<id>/       disk.img, disk/, root/ ─► bound into the container, folder by folder
//!                           resolv.conf ─► likewise
//! ```

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::models::{Mount, MountType};
use emergent_host_disk::{DiskError, Geometry, LayeredDisk};
use emergent_provider::{Operation, ProviderError, SandboxSpec};
use emergent_types::{ProviderKind, WorkspaceId};

use super::{DiskKind, volume_mount};
use crate::container::WORKSPACE;
use crate::host::Host;

/// How long another process may take to unpack an image, and how often that is looked at.
const UNPACK_LIMIT: Duration = Duration::from_secs(300);
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Folders that every workspace has, whatever its image: the root itself cannot be written to.
const FOLDERS: [&str; 11] =
    ["workspace", "home", "root", "etc", "opt", "srv", "mnt", "var", "usr", "app", "data"];

/// Beside a disk: whom its workspace asks for names.
const RESOLVERS: &str = "resolv.conf";

/// Where things are.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    base: PathBuf,
    provider: ProviderKind,
}

impl Layout {
    pub(crate) fn new(data_dir: &Path, provider: ProviderKind) -> Self {
        Self { base: data_dir.join("containers"), provider }
    }

    pub(crate) fn images(&self) -> PathBuf {
        self.base.join("images")
    }

    fn templates(&self) -> PathBuf {
        self.base.join("templates")
    }

    fn disks(&self) -> PathBuf {
        self.base.join(self.provider.as_str())
    }

    fn disk(&self, id: WorkspaceId) -> PathBuf {
        self.disks().join(id.to_string())
    }
}

impl Host {
    pub(super) async fn make_layered(
        &self,
        docker: &Docker,
        spec: &SandboxSpec,
        image: &str,
    ) -> Result<Vec<Mount>, ProviderError> {
        let (id, layout) = (spec.id, self.layout.clone());
        let geometry = Geometry::for_size(spec.limits.disk.bytes());
        let templates = layout.templates();
        self.on_disk(Operation::Create, id, "disk", move || {
            std::fs::create_dir_all(layout.disks()).map_err(|error| DiskError::Step {
                step: "folder of disks",
                path: layout.disks(),
                error,
            })?;
            LayeredDisk::create(&layout.disk(id), geometry, &templates).map(drop)
        })
        .await?;
        let mounts = self.mount_layered(docker, Operation::Create, id, image).await?;
        let device = self.layout.disk(id).join("root/workspace");
        let options = [("type", "none"), ("o", "bind"), ("device", &device.to_string_lossy())];
        let name = self.names.workspace_volume(id);
        self.make_volume(docker, id, name, DiskKind::Layered, image, spec.limits.disk, &options)
            .await
            .map_err(self.docker_step(Operation::Create, id, "volume"))?;
        Ok(mounts)
    }

    /// Mounts a disk over its image's root; says how its folders are bound into a container.
    pub(super) async fn mount_layered(
        &self,
        docker: &Docker,
        operation: Operation,
        id: WorkspaceId,
        image: &str,
    ) -> Result<Vec<Mount>, ProviderError> {
        let lower = self
            .roots
            .get(docker, &self.names, image)
            .await
            .map_err(|error| self.step(operation, id, "root of the image", error))?;
        let folder = self.layout.disk(id);
        let (folders, root) = self
            .on_disk(operation, id, "mount the disk", move || {
                let disk = LayeredDisk::open(&folder)?;
                disk.mount(&lower)?;
                let folders = disk.top_folders(&FOLDERS)?;
                Ok((folders, disk.root()))
            })
            .await?;
        let bind = |name: &String| Mount {
            target: Some(format!("/{name}")),
            source: Some(root.join(name).to_string_lossy().into_owned()),
            typ: Some(MountType::BIND),
            ..Mount::default()
        };
        let mut mounts: Vec<Mount> =
            folders.iter().filter(|name| format!("/{name}") != WORKSPACE).map(bind).collect();
        mounts.push(volume_mount(self.names.workspace_volume(id), WORKSPACE));
        Ok(mounts)
    }

    /// The file that tells a workspace whom to ask for names, as it is bound into its container. Outside
    /// its disk, and read-only there: what it could change is not read on the host.
    pub(crate) async fn resolver_file(
        &self,
        operation: Operation,
        id: WorkspaceId,
        nameservers: &[IpAddr],
    ) -> Result<Mount, ProviderError> {
        let content: String = nameservers.iter().map(|address| format!("nameserver {address}\n")).collect();
        let path = self.layout.disk(id).join(RESOLVERS);
        tokio::fs::write(&path, content)
            .await
            .map_err(|error| self.step(operation, id, "file of nameservers", error))?;
        Ok(Mount {
            target: Some("/etc/resolv.conf".to_owned()),
            source: Some(path.to_string_lossy().into_owned()),
            typ: Some(MountType::BIND),
            read_only: Some(true),
            ..Mount::default()
        })
    }

    pub(super) async fn unmount_layered(
        &self,
        operation: Operation,
        id: WorkspaceId,
    ) -> Result<(), ProviderError> {
        let folder = self.layout.disk(id);
        self.on_disk(operation, id, "unmount the disk", move || match LayeredDisk::open(&folder) {
            Ok(disk) => disk.unmount().map(drop),
            Err(DiskError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        })
        .await
    }

    pub(super) async fn remove_layered(
        &self,
        operation: Operation,
        id: WorkspaceId,
    ) -> Result<(), ProviderError> {
        let folder = self.layout.disk(id);
        self.on_disk(operation, id, "remove the disk", move || {
            let resolvers = folder.join(RESOLVERS);
            match std::fs::remove_file(&resolvers) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(DiskError::Step { step: "file of nameservers", path: resolvers, error })
                }
                _ => LayeredDisk::remove_folder(&folder),
            }
        })
        .await
    }

    /// The workspaces that have something here, whole or not.
    pub(crate) async fn layered_disks(&self) -> std::io::Result<Vec<WorkspaceId>> {
        let disks = self.layout.disks();
        let listed = tokio::task::spawn_blocking(move || match std::fs::read_dir(disks) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
            Ok(entries) => {
                Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
            }
        });
        listed.await.unwrap_or_else(|panic| Err(std::io::Error::other(panic)))
    }

    /// Runs work on a thread that may block.
    async fn on_disk<T: Send + 'static>(
        &self,
        operation: Operation,
        id: WorkspaceId,
        step: &'static str,
        work: impl FnOnce() -> Result<T, DiskError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let done = tokio::task::spawn_blocking(work).await;
        match done {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) if error.is_out_of_space() => {
                Err(ProviderError::Exhausted { provider: self.kind(), resource: "disk", id })
            }
            Ok(Err(error)) => Err(self.step(operation, id, step, error)),
            Err(panic) => Err(self.step(operation, id, step, panic)),
        }
    }
}

/// Why disks of this kind cannot be had here; `None` where nothing speaks against them.
pub(crate) fn obstacle(engine_is_here: bool) -> Option<String> {
    use rustix::thread::{CapabilitySet, capabilities};
    if !engine_is_here {
        return Some("Docker is not on this host".to_owned());
    }
    let privileged = capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN));
    if !privileged {
        return Some("the server does not run as root".to_owned());
    }
    if emergent_host_disk::find_mkfs().is_none() {
        return Some("mkfs.ext4 is missing (package e2fsprogs)".to_owned());
    }
    if !Path::new("/dev/loop-control").exists() {
        return Some("there are no loop devices".to_owned());
    }
    None
}

/// Names a root: the part of an image's hash that is a folder name everywhere.
pub(crate) fn folder_name(image: &str) -> Option<String> {
    let hash = image.strip_prefix("sha256:")?;
    (hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| hash.to_owned())
}

/// Images whose roots are unpacked, one at a time each.
pub(crate) struct Roots {
    folder: PathBuf,
    turns: std::sync::Mutex<std::collections::HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

/// Why there is no root.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RootError {
    #[error("{0:?} is not the hash of an image")]
    NotAHash(String),
    #[error(transparent)]
    Engine(#[from] crate::engine::EngineError),
    #[error(transparent)]
    Unpack(#[from] emergent_images::unpack::UnpackError),
    #[error("{}: {source}", path.display())]
    Folder { path: PathBuf, source: std::io::Error },
}

impl Roots {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, turns: std::sync::Mutex::default() }
    }

    /// The folder of an image's root; unpacked the first time it is wanted.
    pub(crate) async fn get(
        &self,
        docker: &Docker,
        names: &crate::names::Names,
        image: &str,
    ) -> Result<PathBuf, RootError> {
        let name = folder_name(image).ok_or_else(|| RootError::NotAHash(image.to_owned()))?;
        let folder = self.folder.join(&name);
        let turn = Arc::clone(
            self.turns.lock().unwrap_or_else(std::sync::PoisonError::into_inner).entry(name).or_default(),
        );
        let _turn = turn.lock().await;
        let deadline = tokio::time::Instant::now() + UNPACK_LIMIT;
        loop {
            let exists = tokio::fs::try_exists(&folder).await;
            if exists.map_err(|source| RootError::Folder { path: folder.clone(), source })? {
                return Ok(folder);
            }
            match crate::image::unpack_root(docker, names, image, &folder).await {
                // Another process is at it.
                Err(RootError::Unpack(emergent_images::unpack::UnpackError::Busy { .. }))
                    if tokio::time::Instant::now() < deadline =>
                {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                Err(RootError::Unpack(emergent_images::unpack::UnpackError::Exists { .. })) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
