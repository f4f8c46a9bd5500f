//! Disks of the asked size, laid over the image's root on the host.
//!
//! ```text
//!  data folder/containers/
//!    images/<hash>/         an image's root, unpacked once: the lower layer of all its workspaces
//!    templates/             formatted disks, one per size
//!    snapshots/<provider>/  copies of disks
//!    volumes/<provider>/    volumes with names
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
use crate::image::ImageSettings;
use crate::snapshot::SnapshotFiles;
use crate::volume_disks::VolumeDisks;

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

    pub(crate) fn templates(&self) -> PathBuf {
        self.base.join("templates")
    }

    pub(crate) fn disks(&self) -> PathBuf {
        self.base.join(self.provider.as_str())
    }

    pub(crate) fn disk(&self, id: WorkspaceId) -> PathBuf {
        self.disks().join(id.to_string())
    }

    /// Makes the folder that disks are in.
    pub(crate) fn make_disks(&self) -> Result<(), DiskError> {
        let disks = self.disks();
        std::fs::create_dir_all(&disks).map_err(|error| DiskError::Step {
            step: "folder of disks",
            path: disks,
            error,
        })
    }

    /// Volumes with names.
    pub(crate) fn volume_disks(&self) -> VolumeDisks {
        let all = self.base.join("volumes");
        VolumeDisks {
            volumes: all.join(self.provider.as_str()),
            below: all.join(".empty"),
            templates: self.templates(),
        }
    }

    pub(crate) fn snapshots(&self) -> SnapshotFiles {
        SnapshotFiles::new(self.base.join("snapshots").join(self.provider.as_str()))
    }

    /// Those of every provider of the installation: they share unpacked images. Blocks.
    pub(crate) fn snapshots_of_all(&self) -> std::io::Result<Vec<SnapshotFiles>> {
        let entries = match std::fs::read_dir(self.base.join("snapshots")) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        entries.map(|entry| Ok(SnapshotFiles::new(entry?.path()))).collect()
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
            layout.make_disks()?;
            LayeredDisk::create(&layout.disk(id), geometry, &templates).map(drop)
        })
        .await?;
        let mounts = self.mount_layered(docker, Operation::Create, id, image).await?;
        self.name_layered(docker, Operation::Create, spec, image).await?;
        Ok(mounts)
    }

    /// Makes the volume by which a mounted disk is known to Docker, and found again.
    pub(crate) async fn name_layered(
        &self,
        docker: &Docker,
        operation: Operation,
        spec: &SandboxSpec,
        image: &str,
    ) -> Result<(), ProviderError> {
        let id = spec.id;
        let device = self.layout.disk(id).join("root/workspace");
        let options = [("type", "none"), ("o", "bind"), ("device", &device.to_string_lossy())];
        let name = self.names.workspace_volume(id);
        self.make_volume(docker, id, name, DiskKind::Layered, image, spec.limits.disk, &options)
            .await
            .map_err(self.docker_step(operation, id, "volume"))
    }

    /// Mounts a disk over its image's root; says how its folders are bound into a container.
    pub(crate) async fn mount_layered(
        &self,
        docker: &Docker,
        operation: Operation,
        id: WorkspaceId,
        image: &str,
    ) -> Result<Vec<Mount>, ProviderError> {
        let lower = self
            .roots
            .get(docker, &self.names, &self.remains, image)
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

    /// The workspaces that have something here, whole or not. Of those that a killed server has left frozen,
    /// writes go on.
    pub(crate) async fn layered_disks(&self) -> std::io::Result<Vec<WorkspaceId>> {
        let layout = self.layout.clone();
        let listed = tokio::task::spawn_blocking(move || {
            let entries = match std::fs::read_dir(layout.disks()) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
                entries => entries?,
            };
            let ids: Vec<WorkspaceId> =
                entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
            for id in &ids {
                match LayeredDisk::open(&layout.disk(*id)) {
                    Ok(_) | Err(DiskError::NotFound { .. }) => {}
                    Err(error) => tracing::warn!(workspace = %id, "the disk of {id}: {error}"),
                }
            }
            Ok(ids)
        });
        listed.await.unwrap_or_else(|panic| Err(std::io::Error::other(panic)))
    }

    /// Runs work on a thread that may block.
    pub(crate) async fn on_disk<T: Send + 'static>(
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
            Ok(Err(DiskError::TooSlow { limit, .. })) => {
                Err(ProviderError::TimedOut { provider: self.kind(), operation, id, limit })
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
        remains: &crate::remains::Remains,
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
            self.keep_settings(docker, image, &folder).await?;
            // Rarely needed, and large.
            match Box::pin(crate::image::unpack_root(docker, names, remains, image, &folder)).await {
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

    /// What is kept beside a root, for when Docker has the image no more.
    async fn keep_settings(&self, docker: &Docker, image: &str, folder: &Path) -> Result<(), RootError> {
        let Some(present) = crate::image::present(docker, image).await? else { return Ok(()) };
        let file = settings_of(folder);
        let kept = tokio::task::spawn_blocking({
            let file = file.clone();
            move || present.settings.keep(&file)
        });
        let kept = kept.await.unwrap_or_else(|panic| Err(std::io::Error::other(panic)));
        kept.map_err(|source| RootError::Folder { path: file, source })
    }

    /// The root of an image and what its author has set, if it is unpacked.
    pub(crate) async fn unpacked(&self, image: &str) -> Option<(PathBuf, ImageSettings)> {
        let folder = self.folder.join(folder_name(image)?);
        let looked = tokio::task::spawn_blocking(move || {
            let is_there = folder.is_dir();
            is_there.then(|| (folder.clone(), ImageSettings::kept(&settings_of(&folder))))
        });
        looked.await.ok()?
    }
}

/// Beside a root.
pub(crate) fn settings_of(root: &Path) -> PathBuf {
    root.with_extension("settings.json")
}
