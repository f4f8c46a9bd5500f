//! What a sandbox uses, by its control group's account. Of what is inside, the host sees gVisor's own
//! processes alone, so how many there are inside is not known.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use emergent_host_disk::LayeredDisk;
use emergent_provider::{Operation, ProviderError, Usage};
use emergent_types::WorkspaceId;

use super::control_group;
use super::host::Host;

impl Host {
    /// See [`WorkspaceProvider::usage`](emergent_provider::WorkspaceProvider::usage).
    pub(super) async fn usage(&self, id: WorkspaceId) -> Result<Usage, ProviderError> {
        let (group, folder) = (self.group(id), self.layout.sandbox(id));
        let looked = self
            .blocking(Operation::Usage, id, "look at its group", move || {
                let groups = control_group::populated(&group);
                let disk_bytes = || Some(LayeredDisk::open(&folder).ok()?.usage().ok()?.bytes_used);
                Ok((!groups.is_empty()).then(|| Usage {
                    cpu_time: cpu_time(&groups),
                    memory_bytes: memory_bytes(&groups),
                    disk_bytes: disk_bytes(),
                    ..Usage::default()
                }))
            })
            .await?;
        match looked {
            Some(usage) => Ok(usage),
            None if self.layout.sandbox(id).exists() => Err(self.not_running(id)),
            None => Err(self.not_found(id)),
        }
    }
}

fn cpu_time(groups: &[PathBuf]) -> Option<Duration> {
    groups.iter().find_map(|group| {
        let accounted = number(&group.join("cpuacct.usage")).map(Duration::from_nanos);
        accounted.or_else(|| field(&group.join("cpu.stat"), "usage_usec").map(Duration::from_micros))
    })
}

/// Without files that were only read or written and can be dropped.
fn memory_bytes(groups: &[PathBuf]) -> Option<u64> {
    groups.iter().find_map(|group| {
        let stat = group.join("memory.stat");
        let used =
            ["memory.current", "memory.usage_in_bytes"].iter().find_map(|name| number(&group.join(name)))?;
        let droppable = ["total_inactive_file", "inactive_file"].iter().find_map(|name| field(&stat, name));
        Some(used.saturating_sub(droppable.unwrap_or(0)))
    })
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn field(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}
