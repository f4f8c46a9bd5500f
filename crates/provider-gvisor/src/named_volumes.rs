//! Volumes with names, which outlive the workspaces they are mounted in.
//!
//! ```text
//!  data folder/containers/volumes/
//!    .empty/                 below every volume there is nothing
//!    <provider>/<name>/      disk.img, disk/, root/data ─► a volume of Docker's, bound there
//! ```
//!
//! Where disks are limited, so are volumes: each is a file system of its own with the size it was made
//! with, mounted from its first use until it is removed, and again after a restart of the host. Elsewhere
//! it is a volume of Docker's, which nothing bounds; whoever has one is warned.

use bollard::Docker;
use bollard::models::{Mount, Volume, VolumeCreateRequest};
use bollard::query_parameters::{ListVolumesOptionsBuilder, RemoveVolumeOptionsBuilder};
use emergent_provider::{Operation, ProviderError, SandboxSpec, VolumeMount, VolumeName};

use crate::disk::{DiskKind, kind_of, volume_mount};
use crate::engine::{EngineError, MissingIsFine};
use crate::host::Host;
use crate::names;

impl Host {
    /// The volumes of a workspace, ready to be given to a container; made where they are not there, of the same
    /// kind as its disk.
    pub(crate) async fn named_volumes(
        &self,
        docker: &Docker,
        operation: Operation,
        spec: &SandboxSpec,
        kind: DiskKind,
    ) -> Result<Vec<Mount>, ProviderError> {
        if spec.volumes.is_empty() {
            return Ok(Vec::new());
        }
        let _turn = self.volumes.lock().await;
        let mut mounts = Vec::new();
        for volume in &spec.volumes {
            let name = self.names.named_volume(volume.name());
            let failed = |error| self.docker_step(operation, spec.id, "volume")(error);
            let found = self.find_volume(docker, volume.name()).await.map_err(failed)?;
            let kind = found.as_ref().map_or(kind, kind_of);
            if kind == DiskKind::Layered {
                self.mount_volume(operation, spec, volume).await?;
            }
            if found.is_none() {
                let failed = |error| self.docker_step(operation, spec.id, "volume")(error);
                self.make_named_volume(docker, &name, volume, kind).await.map_err(failed)?;
            }
            mounts.push(volume_mount(name, volume.target()));
        }
        Ok(mounts)
    }

    /// See [`WorkspaceProvider::remove_volume`](emergent_provider::WorkspaceProvider::remove_volume).
    pub(crate) async fn remove_volume(&self, volume: &VolumeName) -> Result<(), ProviderError> {
        let docker = self.docker().await?;
        let _turn = self.volumes.lock().await;
        let looked = self.find_volume(&docker, volume).await;
        if looked.map_err(|error| self.volume_step(volume, "look for it", error))?.is_some() {
            let gently = RemoveVolumeOptionsBuilder::new().force(false).build();
            let name = self.names.named_volume(volume);
            match docker.remove_volume(&name, Some(gently)).await.missing_is_fine() {
                Err(error) if error.is_conflict() => {
                    return Err(ProviderError::VolumeInUse { provider: self.kind(), volume: volume.clone() });
                }
                removed => removed.map_err(|error| self.volume_step(volume, "remove it", error))?,
            }
        }
        let (disks, name) = (self.layout.volume_disks(), volume.clone());
        let removed = tokio::task::spawn_blocking(move || disks.remove(&name)).await;
        match removed {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.volume_step(volume, "remove the disk", error)),
            Err(panic) => Err(self.volume_step(volume, "task", panic)),
        }
    }

    /// See [`WorkspaceProvider::list_volumes`](emergent_provider::WorkspaceProvider::list_volumes).
    pub(crate) async fn list_volumes(&self) -> Result<Vec<VolumeName>, ProviderError> {
        let unreadable = |reason: String| ProviderError::List { provider: self.kind(), reason };
        let docker = self.engine.docker().await.map_err(|error| unreadable(error.to_string()))?;
        let mut filter = self.names.filter(None);
        filter.entry("label".to_owned()).or_default().push(names::VOLUME.to_owned());
        let options = ListVolumesOptionsBuilder::new().filters(&filter).build();
        let listed = docker.list_volumes(Some(options)).await.map_err(EngineError::from);
        let listed = listed.map_err(|error| unreadable(error.to_string()))?.volumes.unwrap_or_default();
        let mut found: std::collections::BTreeSet<VolumeName> =
            listed.iter().filter_map(|volume| volume.labels.get(names::VOLUME)?.parse().ok()).collect();
        let disks = self.layout.volume_disks();
        let on_disks = tokio::task::spawn_blocking(move || disks.list()).await;
        let on_disks = on_disks.map_err(|panic| unreadable(panic.to_string()))?;
        found.extend(on_disks.map_err(|error| unreadable(error.to_string()))?);
        Ok(found.into_iter().collect())
    }

    async fn find_volume(&self, docker: &Docker, volume: &VolumeName) -> Result<Option<Volume>, EngineError> {
        match docker.inspect_volume(&self.names.named_volume(volume)).await.map_err(EngineError::from) {
            Ok(volume) => Ok(Some(volume).filter(|volume| self.names.is_own(&volume.labels))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Mounts a volume's disk, which is made where it is not there.
    async fn mount_volume(
        &self,
        operation: Operation,
        spec: &SandboxSpec,
        volume: &VolumeMount,
    ) -> Result<(), ProviderError> {
        let (disks, volume) = (self.layout.volume_disks(), volume.clone());
        let mount = move || disks.mount(&volume).map(drop);
        self.on_disk(operation, spec.id, "disk of a volume", mount).await
    }

    async fn make_named_volume(
        &self,
        docker: &Docker,
        name: &str,
        volume: &VolumeMount,
        kind: DiskKind,
    ) -> Result<(), EngineError> {
        let mut labels = self.names.own_labels();
        labels.insert(names::VOLUME.to_owned(), volume.name().to_string());
        labels.insert(names::DISK.to_owned(), kind.label().to_owned());
        labels.insert(names::DISK_BYTES.to_owned(), volume.size().bytes().to_string());
        let device = self.layout.volume_disks().data(volume.name()).to_string_lossy().into_owned();
        let options = match kind {
            DiskKind::Layered => {
                vec![("type", "none".to_owned()), ("o", "bind".to_owned()), ("device", device)]
            }
            DiskKind::Volumes => Vec::new(),
        };
        let options = options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let request = VolumeCreateRequest {
            name: Some(name.to_owned()),
            driver: Some("local".to_owned()),
            driver_opts: Some(options),
            labels: Some(labels),
            ..VolumeCreateRequest::default()
        };
        docker.create_volume(request).await?;
        Ok(())
    }

    pub(crate) fn volume_step(
        &self,
        volume: &VolumeName,
        step: &'static str,
        reason: impl std::fmt::Display,
    ) -> ProviderError {
        ProviderError::VolumeStep {
            provider: self.kind(),
            operation: Operation::RemoveVolume,
            volume: volume.clone(),
            step,
            reason: reason.to_string(),
        }
    }
}
