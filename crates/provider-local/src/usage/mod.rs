//! What a sandbox uses, looked at from outside.
//!
//! | | with control groups | without |
//! |---|---|---|
//! | processor time | of the group, those that have ended included | of the processes there are, and of the children they have waited for |
//! | memory | of the group, `/tmp` included | what is in its processes; what several share is counted once |
//! | processes | of the group | its first one and everything below it |
//! | disk | of a disk file what its file system counts as used, else the blocks that it takes up | the same; of a folder, it is not known at once: see `measure` |

mod processes;

use std::os::unix::fs::MetadataExt;

use emergent_provider::{ProviderError, Usage};
use emergent_types::WorkspaceId;

use self::processes::Table;
use crate::layout::DISK_IMAGE;
use crate::means::DiskKind;
use crate::provider::{Host, KIND};
use crate::state::Observed;

/// The unit in which a file's blocks are counted, whatever its file system has.
const BLOCK: u64 = 512;

impl Host {
    /// What a running sandbox uses.
    pub(crate) fn usage(&self, id: WorkspaceId) -> Result<Usage, ProviderError> {
        let (record, init) = match self.observe(id) {
            Observed::Running(record, init, _) => (record, init),
            Observed::Stopped(_) => return Err(ProviderError::NotRunning { provider: KIND, id }),
            Observed::Partial | Observed::Absent => {
                return Err(ProviderError::NotFound { provider: KIND, id });
            }
        };
        let disk_bytes = match record.disk {
            DiskKind::Image => {
                let file = self.layout.sandbox(id).join(DISK_IMAGE);
                let taken = || std::fs::metadata(file).ok().map(|found| found.blocks() * BLOCK);
                init.used_of_root(record.limits.disk.bytes()).or_else(taken)
            }
            DiskKind::Folder => None,
        };
        let means = self.means().map_err(|error| ProviderError::Unavailable {
            provider: KIND,
            reason: format!("what the host has: {error}"),
        })?;
        let group = self.layout.group(id);
        let usage = Usage { disk_bytes, ..Usage::default() };
        let Some(members) = means.cgroups.processes(&group) else {
            let table = Table::below(init.pid);
            return Ok(Usage {
                cpu_time: table.as_ref().map(Table::cpu_time),
                memory_bytes: table.as_ref().and_then(Table::memory_bytes),
                processes: table.as_ref().map(Table::len),
                ..usage
            });
        };
        Ok(Usage {
            cpu_time: means.cgroups.cpu_time(&group).or_else(|| Some(Table::of(&members)?.cpu_time())),
            memory_bytes: means.cgroups.memory_bytes(&group),
            processes: Some(members.len() as u64),
            ..usage
        })
    }
}
