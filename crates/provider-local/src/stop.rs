//! Ending a sandbox's processes and keeping its disk.

use std::fs::File;

use emergent_provider::{Operation, ProviderError};
use emergent_types::WorkspaceId;

use crate::layout::DISK_IMAGE;
use crate::means::DiskKind;
use crate::provider::{Host, KIND, step_error};
use crate::state::{Observed, Phase};

impl Host {
    pub(crate) fn stop(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        let prepared = self.prepared()?;
        let (mut record, init) = match self.observe(id) {
            Observed::Running(record, init, _) => (record, Some(init)),
            Observed::Stopped(record) => (record, None),
            Observed::Partial | Observed::Absent => {
                return Err(ProviderError::NotFound { provider: KIND, id });
            }
        };
        self.end_processes(&prepared, Operation::Stop, id, init.as_ref())?;
        let folder = self.layout.sandbox(id);
        // What was acknowledged must be there after a power cut too.
        let synced = match record.disk {
            DiskKind::Image => File::open(folder.join(DISK_IMAGE)).and_then(|disk| disk.sync_all()),
            DiskKind::Folder => File::open(&folder).and_then(|disk| Ok(rustix::fs::syncfs(disk)?)),
        };
        synced.map_err(|error| step_error(Operation::Stop, id, "disk", error))?;
        record.phase = Phase::Stopped;
        record
            .save(&folder)
            .and_then(|()| File::open(&folder)?.sync_all())
            .map_err(|error| step_error(Operation::Stop, id, "record", error))
    }
}
