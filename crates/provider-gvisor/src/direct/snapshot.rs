//! Copies of workspaces' disks, and workspaces made from them. The copies are as with Docker
//! ([`SnapshotFiles`](crate::snapshot::SnapshotFiles)).
//!
//! ```text
//!  snapshot:  disk held still ─► copied ─► goes on ─► record, last: from here on it is whole
//!  restore:   record ─► may it be so? ─► disk copied, over the same root ─► sandbox, as for any other
//! ```

use std::io;

use emergent_host_disk::LayeredDisk;
use emergent_provider::{
    ObservedSnapshot, Operation, ProviderError, Sandbox, SandboxSpec, Snapshot, SnapshotInUse,
    SnapshotToChange,
};
use emergent_types::{ByteSize, IsolationLevel, SnapshotId};

use super::host::Host;
use super::record::Record;
use super::runsc::Status;
use crate::disk::DiskKind;
use crate::snapshot::Record as SnapshotRecord;

impl Host {
    /// See [`WorkspaceProvider::snapshot`](emergent_provider::WorkspaceProvider::snapshot).
    pub(super) async fn snapshot(
        &self,
        _turn: SnapshotToChange,
        id: SnapshotId,
        spec: &SandboxSpec,
    ) -> Result<Snapshot, ProviderError> {
        if let Some(record) = self.find_snapshot(id).await? {
            return Ok(record.snapshot);
        }
        self.remove_snapshot(id).await?;
        let taken = self.take_snapshot(id, spec).await;
        match &taken {
            Ok(_) => {
                tracing::info!(snapshot = %id, workspace = %spec.id,
                    "took snapshot {id} of workspace {}", spec.id);
            }
            Err(_) => {
                if let Err(left) = self.remove_snapshot(id).await {
                    tracing::warn!(snapshot = %id, "a failed snapshot has left something: {left}");
                }
            }
        }
        taken
    }

    async fn take_snapshot(&self, id: SnapshotId, spec: &SandboxSpec) -> Result<Snapshot, ProviderError> {
        let image = self.record(spec.id).ok_or_else(|| self.not_found(spec.id))?.image;
        let (workspace, network) = (spec.id, spec.network);
        let (folder, files) = (self.layout.sandbox(workspace), self.layout.snapshots());
        self.on_disk(Operation::Snapshot, workspace, "copy the disk", move || {
            let snapshot = Snapshot {
                id,
                workspace,
                isolation: IsolationLevel::Gvisor,
                network,
                disk: ByteSize::from_bytes(LayeredDisk::open(&folder)?.size()?),
            };
            let record = SnapshotRecord { snapshot, image, disk: DiskKind::Layered };
            files.keep(&record, &folder)?;
            Ok(record.snapshot)
        })
        .await
    }

    /// See [`WorkspaceProvider::restore`](emergent_provider::WorkspaceProvider::restore).
    pub(super) async fn restore(
        &self,
        _turn: SnapshotInUse,
        id: SnapshotId,
        spec: &SandboxSpec,
    ) -> Result<Sandbox, ProviderError> {
        self.settle().await;
        let is_whole = self.record(spec.id).is_some();
        if is_whole && self.status(Operation::Restore, spec.id).await? == Some(Status::Running) {
            return Ok(self.describe(spec));
        }
        let record = self.find_snapshot(id).await?;
        let record = record.ok_or(ProviderError::SnapshotNotFound { provider: self.kind(), snapshot: id })?;
        record.snapshot.check_restore(self.kind(), IsolationLevel::Gvisor, spec)?;
        self.check_enforceable(spec)?;
        self.try_out().await?;
        // Remains of an earlier attempt.
        self.remove_everything(Operation::Restore, spec.id).await?;
        match self.make_from(&record, spec).await {
            Ok(()) => Ok(self.describe(spec)),
            Err(error) => {
                self.remove_everything(Operation::Restore, spec.id).await?;
                Err(error)
            }
        }
    }

    /// Makes a sandbox; leaves what it has made where that fails.
    async fn make_from(&self, from: &SnapshotRecord, spec: &SandboxSpec) -> Result<(), ProviderError> {
        self.make_folder(Operation::Restore, spec.id).await?;
        let disk = self.layout.snapshots().disk(from.snapshot.id);
        let (disk, connection) = tokio::join!(
            self.make_disk_from(disk, spec, self.images.root(&from.image)),
            self.connection(Operation::Restore, spec.id, spec.network),
        );
        disk?;
        let record = Record { image: from.image.clone(), network: spec.network };
        self.launch(Operation::Restore, spec, record, connection?).await.map(drop)
    }

    /// See [`WorkspaceProvider::delete_snapshot`](emergent_provider::WorkspaceProvider::delete_snapshot).
    pub(super) async fn delete_snapshot(
        &self,
        _turn: SnapshotToChange,
        id: SnapshotId,
    ) -> Result<(), ProviderError> {
        self.remove_snapshot(id).await
    }

    /// See [`WorkspaceProvider::list_snapshots`](emergent_provider::WorkspaceProvider::list_snapshots).
    pub(super) async fn list_snapshots(&self) -> Result<Vec<ObservedSnapshot>, ProviderError> {
        let found = self.layout.snapshots().list().await.map_err(|error| self.unreadable(&error))?;
        let observed = found.into_iter().map(|(id, record)| match record {
            Some(record) => ObservedSnapshot::Whole(record.snapshot),
            None => ObservedSnapshot::Partial(id),
        });
        Ok(observed.collect())
    }

    async fn find_snapshot(&self, id: SnapshotId) -> Result<Option<SnapshotRecord>, ProviderError> {
        self.layout.snapshots().find(id).await.map_err(|error| self.unreadable(&error))
    }

    async fn remove_snapshot(&self, id: SnapshotId) -> Result<(), ProviderError> {
        let removed = self.layout.snapshots().remove(id).await;
        removed.map_err(|error| self.snapshot_step(id, "files", error))
    }

    fn unreadable(&self, error: &io::Error) -> ProviderError {
        ProviderError::List { provider: self.kind(), reason: error.to_string() }
    }

    pub(super) fn snapshot_step(
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
}
