//! Copies of layered disks.

use bollard::Docker;
use bollard::models::Mount;
use emergent_host_disk::{Geometry, LayeredDisk};
use emergent_provider::{Operation, ProviderError, SandboxSpec};

use super::Record;
use crate::host::Host;

impl Host {
    pub(super) async fn copy_layered(&self, record: &Record) -> Result<(), ProviderError> {
        let workspace = record.snapshot.workspace;
        let (files, disk, record) = (self.layout.snapshots(), self.layout.disk(workspace), record.clone());
        self.on_disk(Operation::Snapshot, workspace, "copy the disk", move || files.keep(&record, &disk))
            .await
    }

    /// The disk of a new workspace, mounted.
    pub(super) async fn restore_layered(
        &self,
        docker: &Docker,
        record: &Record,
        spec: &SandboxSpec,
    ) -> Result<Vec<Mount>, ProviderError> {
        let (id, layout) = (spec.id, self.layout.clone());
        let snapshot = self.layout.snapshots().disk(record.snapshot.id);
        let geometry = Geometry::for_size(spec.limits.disk.bytes());
        self.on_disk(Operation::Restore, id, "copy the disk", move || {
            layout.make_disks()?;
            LayeredDisk::create_larger_from_snapshot(&layout.disk(id), &snapshot, geometry).map(drop)
        })
        .await?;
        let mounts = self.mount_layered(docker, Operation::Restore, id, &record.image).await?;
        self.name_layered(docker, Operation::Restore, spec, &record.image).await?;
        Ok(mounts)
    }
}
