//! Starting a stopped sandbox again: a new one around the kept disk.

use emergent_host_disk::LayeredDisk;
use emergent_provider::{Operation, ProviderError, Sandbox, SandboxSpec};

use super::host::Host;
use super::record::Record;
use super::runsc::Status;

impl Host {
    /// See [`WorkspaceProvider::resume`](emergent_provider::WorkspaceProvider::resume).
    pub(super) async fn resume(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let (id, name) = (spec.id, self.names.container(spec.id));
        self.settle().await;
        let record = self.record(id).ok_or_else(|| self.not_found(id))?;
        match self.status(Operation::Resume, id).await? {
            Some(Status::Running) => return Ok(self.describe(spec)),
            Some(Status::Paused) => {
                let resumed = self.runsc.resume(&name).await;
                resumed.map_err(self.runsc_step(Operation::Resume, id, "let the sandbox go on"))?;
                return Ok(self.describe(spec));
            }
            Some(Status::Stopped | Status::Unfinished) => self.end(Operation::Resume, id).await?,
            None => {}
        }
        let launched = async {
            let (disk, connection) = tokio::join!(
                self.mount_disk(id, self.images.root(&record.image)),
                self.connection(Operation::Resume, id, spec.network),
            );
            disk?;
            let record = Record { network: spec.network, ..record };
            self.launch(Operation::Resume, spec, record, connection?).await
        };
        match launched.await {
            Ok(_) => Ok(self.describe(spec)),
            Err(error) => {
                self.end(Operation::Resume, id).await?;
                self.set_disk_aside(Operation::Resume, id).await?;
                Err(error)
            }
        }
    }

    /// What is written down of a workspace whose disk is whole.
    pub(super) fn record(&self, id: emergent_types::WorkspaceId) -> Option<Record> {
        let folder = self.layout.sandbox(id);
        LayeredDisk::open(&folder).ok()?;
        Record::load(&folder)
    }
}
