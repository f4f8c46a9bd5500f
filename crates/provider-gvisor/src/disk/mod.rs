//! Where a workspace's files are, in one of two ways:
//!
//! - **layered** ([`layered`]): a file with a file system of the asked size, laid over the image's
//!   root on the host and bound into the container folder by folder. The image itself is read-only,
//!   so everything that can be written is bounded by a true `ENOSPC`, and all of it is kept. Needs
//!   root, and an engine that sees this host's mounts.
//! - **volumes** ([`volumes`]): named volumes of Docker's for `/workspace` and the home folders, which
//!   work with any engine. Nothing bounds them, so what they hold is watched, together with what is
//!   written elsewhere; that is gone with the container.
//!
//! Either way there is a volume `agent-workspace-{id}` at `/workspace`, whose labels say which it is
//! and which image the workspace was made from.

pub(crate) mod layered;
mod volumes;

pub(crate) use volumes::collect;

use bollard::Docker;
use bollard::models::{Mount, MountType, Volume, VolumeCreateRequest};
use bollard::query_parameters::{ListVolumesOptionsBuilder, RemoveVolumeOptionsBuilder};
use emergent_provider::{DiskUse, Operation, ProviderError, SandboxSpec};
use emergent_types::{ByteSize, DiskEnforcement, Persistence, WorkspaceId};

use crate::engine::{EngineError, MissingIsFine};
use crate::host::Host;
use crate::image::{PresentImage, StartImage};
use crate::names;

/// How workspaces keep their files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskKind {
    /// A file system of the asked size.
    Layered,
    /// Volumes without a limit.
    Volumes,
}

impl DiskKind {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Layered => "layered",
            Self::Volumes => "volumes",
        }
    }

    /// From its label.
    pub(crate) fn named(label: &str) -> Option<Self> {
        [Self::Layered, Self::Volumes].into_iter().find(|kind| kind.label() == label)
    }

    pub(crate) fn enforcement(self) -> DiskEnforcement {
        match self {
            Self::Layered => DiskEnforcement::Hard,
            Self::Volumes => DiskEnforcement::Monitored,
        }
    }

    pub(crate) fn persistence(self) -> Persistence {
        match self {
            Self::Layered => Persistence::Full,
            Self::Volumes => Persistence::Home,
        }
    }
}

/// A disk that can be given to a container.
pub(crate) struct ReadyDisk {
    pub(crate) kind: DiskKind,
    /// What its container starts from.
    pub(crate) image: StartImage,
    pub(crate) mounts: Vec<Mount>,
}

impl Host {
    /// Makes a workspace's disk.
    pub(crate) async fn make_disk(
        &self,
        docker: &Docker,
        spec: &SandboxSpec,
        image: &PresentImage,
        kind: DiskKind,
    ) -> Result<ReadyDisk, ProviderError> {
        let mounts = match kind {
            DiskKind::Layered => self.make_layered(docker, spec, &image.id).await?,
            DiskKind::Volumes => self.make_volumes(docker, Operation::Create, spec, &image.id).await?,
        };
        Ok(ReadyDisk { kind, image: image.clone().into(), mounts })
    }

    /// A disk that was kept, ready for another container.
    pub(crate) async fn kept_disk(
        &self,
        docker: &Docker,
        spec: &SandboxSpec,
    ) -> Result<ReadyDisk, ProviderError> {
        let id = spec.id;
        let looked = self.workspace_volume(docker, id).await;
        let volume = looked
            .map_err(self.docker_step(Operation::Resume, id, "look for its volume"))?
            .ok_or_else(|| self.not_found(id))?;
        let image = volume.labels.get(names::IMAGE).cloned().ok_or_else(|| self.not_found(id))?;
        let kind = kind_of(&volume);
        let start = self.start_image(docker, Operation::Resume, spec, kind, &image).await?;
        let mounts = match kind {
            DiskKind::Layered => self.mount_layered(docker, Operation::Resume, id, &image).await?,
            DiskKind::Volumes => self.volume_mounts(id),
        };
        Ok(ReadyDisk { kind, image: start, mounts })
    }

    /// How a workspace keeps its files.
    pub(crate) async fn disk_kind(
        &self,
        docker: &Docker,
        id: WorkspaceId,
    ) -> Result<Option<DiskKind>, EngineError> {
        Ok(self.workspace_volume(docker, id).await?.as_ref().map(kind_of))
    }

    /// Whether there is a disk.
    pub(crate) async fn has_disk(&self, docker: &Docker, id: WorkspaceId) -> Result<bool, EngineError> {
        Ok(self.workspace_volume(docker, id).await?.is_some())
    }

    pub(crate) async fn workspace_volume(
        &self,
        docker: &Docker,
        id: WorkspaceId,
    ) -> Result<Option<Volume>, EngineError> {
        match docker.inspect_volume(&self.names.workspace_volume(id)).await.map_err(EngineError::from) {
            // Somebody else's installation may have made one of that name.
            Ok(volume) => Ok(Some(volume).filter(|volume| self.names.is_own(&volume.labels))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The container is gone, the disk stays: what the host has mounted for it is unmounted.
    pub(crate) async fn set_disk_aside(
        &self,
        operation: Operation,
        id: WorkspaceId,
    ) -> Result<(), ProviderError> {
        self.unmount_layered(operation, id).await
    }

    /// Removes the disk. One that is not there is success.
    pub(crate) async fn remove_disk(
        &self,
        docker: &Docker,
        operation: Operation,
        id: WorkspaceId,
    ) -> Result<(), ProviderError> {
        let remove = async {
            let filter = self.names.filter(Some(id));
            let options = ListVolumesOptionsBuilder::new().filters(&filter).build();
            let listed = docker.list_volumes(Some(options)).await?.volumes.unwrap_or_default();
            // Docker 20.10 forgets the labels of a volume whose container has outlived the daemon.
            let by_name = [self.names.workspace_volume(id), self.names.home_volume(id)];
            for name in by_name {
                if let Ok(volume) = docker.inspect_volume(&name).await
                    && volume.labels.is_empty()
                {
                    remove_volume(docker, &name).await?;
                }
            }
            for volume in listed {
                remove_volume(docker, &volume.name).await?;
            }
            Ok(())
        };
        remove.await.map_err(self.docker_step(operation, id, "remove its volumes"))?;
        self.remove_layered(operation, id).await
    }

    /// What a workspace uses of a disk that is only watched.
    pub(crate) async fn disk_use(&self, id: WorkspaceId) -> Result<Option<DiskUse>, ProviderError> {
        let docker = self.docker().await?;
        let failed = |step| move |error: EngineError| self.docker_step(Operation::Measure, id, step)(error);
        match self.disk_kind(&docker, id).await.map_err(failed("look for its volume"))? {
            None => Err(self.not_found(id)),
            Some(DiskKind::Layered) => Ok(None),
            Some(DiskKind::Volumes) => {
                self.measure_volumes(&docker, id).await.map(Some).map_err(failed("measure its volumes"))
            }
        }
    }

    /// The size that a workspace's disk was made with.
    async fn asked_disk(&self, docker: &Docker, id: WorkspaceId) -> Result<u64, EngineError> {
        let volume = self.workspace_volume(docker, id).await?;
        Ok(volume.and_then(|volume| volume.labels.get(names::DISK_BYTES)?.parse().ok()).unwrap_or(u64::MAX))
    }

    /// Makes a named volume; `options` are the local driver's.
    #[expect(clippy::too_many_arguments, reason = "each becomes a word of one request")]
    async fn make_volume(
        &self,
        docker: &Docker,
        id: WorkspaceId,
        name: String,
        kind: DiskKind,
        image: &str,
        size: ByteSize,
        options: &[(&str, &str)],
    ) -> Result<(), EngineError> {
        let mut labels = self.names.labels(id);
        labels.insert(names::IMAGE.to_owned(), image.to_owned());
        labels.insert(names::DISK.to_owned(), kind.label().to_owned());
        labels.insert(names::DISK_BYTES.to_owned(), size.bytes().to_string());
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let volume = VolumeCreateRequest {
            name: Some(name),
            driver: Some("local".to_owned()),
            driver_opts: Some(options),
            labels: Some(labels),
            ..VolumeCreateRequest::default()
        };
        docker.create_volume(volume).await?;
        Ok(())
    }
}

pub(crate) fn kind_of(volume: &Volume) -> DiskKind {
    match volume.labels.get(names::DISK).map(String::as_str) {
        Some("layered") => DiskKind::Layered,
        _ => DiskKind::Volumes,
    }
}

/// A volume in its place.
pub(crate) fn volume_mount(name: String, target: &str) -> Mount {
    Mount {
        target: Some(target.to_owned()),
        source: Some(name),
        typ: Some(MountType::VOLUME),
        ..Mount::default()
    }
}

async fn remove_volume(docker: &Docker, name: &str) -> Result<(), EngineError> {
    let options = RemoveVolumeOptionsBuilder::new().force(true).build();
    docker.remove_volume(name, Some(options)).await.missing_is_fine()
}
