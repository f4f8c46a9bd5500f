//! Copies of workspaces' disks, and workspaces made from them.
//!
//! ```text
//!  snapshot:  disk held still ─► copied ─► goes on ─► record, last: from here on it is whole
//!  restore:   record ─► may it be so? ─► disk copied ─► container, as for any other
//!  deletion:  record, first: from here on it is not whole ─► the copy
//! ```
//!
//! A copy is of the same kind as the disk: a file below the data folder ([`files`]), or volumes of
//! Docker's ([`volumes`]). Either way it says which image it belongs over and what its workspace could
//! reach ([`record`]).

mod copier;
mod files;
mod layered;
mod record;
mod volumes;

use std::collections::BTreeMap;

use bollard::Docker;
use emergent_provider::{
    ObservedSnapshot, Operation, ProviderError, Sandbox, SandboxSpec, Snapshot, SnapshotInUse,
    SnapshotToChange,
};
use emergent_types::{ByteSize, SnapshotId, WorkspaceId};

use crate::containers::{self, Condition};
use crate::create::check_sizes;
use crate::disk::{DiskKind, ReadyDisk, kind_of};
use crate::engine::EngineError;
use crate::host::Host;
use crate::names;

pub(crate) use copier::{COPIER, CopyError};
pub(crate) use files::SnapshotFiles;
pub(crate) use record::Record;

impl Host {
    /// See [`WorkspaceProvider::snapshot`](emergent_provider::WorkspaceProvider::snapshot).
    pub(crate) async fn snapshot(
        &self,
        _turn: SnapshotToChange,
        id: SnapshotId,
        spec: &SandboxSpec,
    ) -> Result<Snapshot, ProviderError> {
        let docker = self.docker().await?;
        if let Some(record) = self.find_snapshot(&docker, id).await? {
            return Ok(record.snapshot);
        }
        self.remove_snapshot(&docker, id).await?;
        let looked = self.workspace_volume(&docker, spec.id).await;
        let volume = looked
            .map_err(self.docker_step(Operation::Snapshot, spec.id, "look for its volume"))?
            .ok_or_else(|| self.not_found(spec.id))?;
        let image = volume.labels.get(names::IMAGE).cloned().ok_or_else(|| self.not_found(spec.id))?;
        let size = volume.labels.get(names::DISK_BYTES).and_then(|bytes| bytes.parse().ok());
        let record = Record {
            snapshot: Snapshot {
                id,
                workspace: spec.id,
                isolation: self.options.runtime.isolation(),
                network: spec.network,
                disk: size.map_or(spec.limits.disk, ByteSize::from_bytes),
            },
            image,
            disk: kind_of(&volume),
        };
        let taken = match record.disk {
            DiskKind::Layered => self.copy_layered(&record).await,
            DiskKind::Volumes => self.copy_volumes(&docker, &record).await,
        };
        if let Err(error) = taken {
            if let Err(left) = self.remove_snapshot(&docker, id).await {
                tracing::warn!(snapshot = %id, "a failed snapshot has left something: {left}");
            }
            return Err(error);
        }
        tracing::info!(snapshot = %id, workspace = %spec.id, "took snapshot {id} of workspace {}", spec.id);
        Ok(record.snapshot)
    }

    /// See [`WorkspaceProvider::restore`](emergent_provider::WorkspaceProvider::restore).
    pub(crate) async fn restore(
        &self,
        _turn: SnapshotInUse,
        id: SnapshotId,
        spec: &SandboxSpec,
    ) -> Result<Sandbox, ProviderError> {
        let docker = self.docker().await?;
        self.check_runtime(&docker).await?;
        let failed =
            |step| move |error: EngineError| self.docker_step(Operation::Restore, spec.id, step)(error);
        let name = self.names.container(spec.id);
        let seen = containers::look(&docker, &name).await.map_err(failed("look for its container"))?;
        if seen.is_some_and(|seen| seen.condition == Condition::Running) {
            return self.describe_running(&docker, Operation::Restore, spec).await;
        }
        let record = self.find_snapshot(&docker, id).await?;
        let record = record.ok_or(ProviderError::SnapshotNotFound { provider: self.kind(), snapshot: id })?;
        record.snapshot.check_restore(self.kind(), self.options.runtime.isolation(), spec)?;
        let means = self.means(&docker).await?;
        check_sizes(self.kind(), spec.limits)?;
        if spec.named.disk && record.disk == DiskKind::Volumes {
            let why = means.why_volumes.unwrap_or_else(|| format!("snapshot {id} is of volumes"));
            return Err(self.only_watched(&why));
        }
        // Remains of an earlier attempt.
        self.remove_everything(&docker, Operation::Restore, spec.id).await?;
        let image = self.start_image(&docker, Operation::Restore, spec, record.disk, &record.image).await?;
        self.agent.ensure(&docker, &image.id).await.map_err(failed("volume of the agent"))?;
        let made = async {
            let mounts = match record.disk {
                DiskKind::Layered => self.restore_layered(&docker, &record, spec).await?,
                DiskKind::Volumes => self.restore_volumes(&docker, &record, spec).await?,
            };
            let disk = ReadyDisk { kind: record.disk, image, mounts };
            self.start_around(&docker, Operation::Restore, spec, disk).await
        };
        match made.await {
            Ok(sandbox) => Ok(sandbox),
            Err(error) => {
                self.remove_everything(&docker, Operation::Restore, spec.id).await?;
                Err(error)
            }
        }
    }

    /// See [`WorkspaceProvider::delete_snapshot`](emergent_provider::WorkspaceProvider::delete_snapshot).
    pub(crate) async fn delete_snapshot(
        &self,
        _turn: SnapshotToChange,
        id: SnapshotId,
    ) -> Result<(), ProviderError> {
        let docker = self.docker().await?;
        self.remove_snapshot(&docker, id).await
    }

    /// See [`WorkspaceProvider::list_snapshots`](emergent_provider::WorkspaceProvider::list_snapshots).
    pub(crate) async fn list_snapshots(&self) -> Result<Vec<ObservedSnapshot>, ProviderError> {
        let unreadable = |reason: String| ProviderError::List { provider: self.kind(), reason };
        let docker = self.engine.docker().await.map_err(|error| unreadable(error.to_string()))?;
        let mut found = BTreeMap::new();
        for (id, record) in
            self.layout.snapshots().list().await.map_err(|error| unreadable(error.to_string()))?
        {
            found.insert(id, record);
        }
        for (id, record) in
            self.volume_snapshots(&docker).await.map_err(|error| unreadable(error.to_string()))?
        {
            let whole = found.entry(id).or_insert(None);
            *whole = whole.take().or(record);
        }
        let observed = found.into_iter().map(|(id, record)| match record {
            Some(record) => ObservedSnapshot::Whole(record.snapshot),
            None => ObservedSnapshot::Partial(id),
        });
        Ok(observed.collect())
    }

    /// A whole snapshot.
    async fn find_snapshot(&self, docker: &Docker, id: SnapshotId) -> Result<Option<Record>, ProviderError> {
        let unreadable = |reason: String| ProviderError::List { provider: self.kind(), reason };
        if let Some(record) =
            self.layout.snapshots().find(id).await.map_err(|error| unreadable(error.to_string()))?
        {
            return Ok(Some(record));
        }
        self.volume_snapshot(docker, id).await.map_err(|error| unreadable(error.to_string()))
    }

    /// Whatever there is of a snapshot; nothing at all is success.
    async fn remove_snapshot(&self, docker: &Docker, id: SnapshotId) -> Result<(), ProviderError> {
        let removed = self.layout.snapshots().remove(id).await;
        removed.map_err(|error| self.snapshot_step(id, "files", error))?;
        let removed = self.remove_volume_snapshot(docker, id).await;
        removed.map_err(|error| self.snapshot_step(id, "volumes", error))
    }

    pub(crate) fn snapshot_step(
        &self,
        snapshot: SnapshotId,
        step: &'static str,
        reason: impl std::fmt::Display,
    ) -> ProviderError {
        ProviderError::SnapshotStep {
            provider: self.kind(),
            operation: Operation::DeleteSnapshot,
            snapshot,
            step,
            reason: reason.to_string(),
        }
    }

    fn copy_failed(&self, operation: Operation, id: WorkspaceId, error: CopyError) -> ProviderError {
        match error {
            CopyError::Full => ProviderError::Exhausted { provider: self.kind(), resource: "disk", id },
            CopyError::TimedOut(limit) => {
                ProviderError::TimedOut { provider: self.kind(), operation, id, limit }
            }
            CopyError::Engine(error) => self.docker_step(operation, id, "copy its volumes")(error),
            CopyError::Failed(_) => self.step(operation, id, "copy its volumes", error),
        }
    }
}
