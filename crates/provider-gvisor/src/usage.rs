//! What a container uses. Docker reads it from the container's control group, on the engine's host; of what is
//! inside gVisor it sees gVisor's own processes alone, so how many there are inside is not known.

use std::time::Duration;

use bollard::Docker;
use bollard::models::{ContainerMemoryStats, ContainerStatsResponse};
use bollard::query_parameters::StatsOptionsBuilder;
use emergent_host_disk::LayeredDisk;
use emergent_provider::{Operation, ProviderError, Usage};
use emergent_types::WorkspaceId;
use futures::StreamExt;

use crate::disk::DiskKind;
use crate::engine::EngineError;
use crate::host::Host;

impl Host {
    /// See [`WorkspaceProvider::usage`](emergent_provider::WorkspaceProvider::usage).
    pub(crate) async fn usage(&self, id: WorkspaceId) -> Result<Usage, ProviderError> {
        let docker = self.docker().await?;
        let stats = match one_look(&docker, &self.names.container(id)).await {
            Ok(stats) => stats,
            Err(error) if error.is_not_found() => return Err(self.not_found(id)),
            Err(error) => return Err(self.docker_step(Operation::Usage, id, "look at its container")(error)),
        };
        // Of a container without processes there is nothing to tell.
        let memory = stats.memory_stats.as_ref().and_then(in_use).ok_or_else(|| self.not_running(id))?;
        let is_layered = self.trial.known().is_some_and(|means| means.disk == DiskKind::Layered);
        let disk_bytes = if is_layered { self.layered_bytes(id).await } else { None };
        Ok(Usage {
            cpu_time: cpu_time(&stats),
            memory_bytes: Some(memory),
            processes: None,
            disk_bytes,
            on_another_host: !is_layered && self.engine.address().socket().is_none(),
        })
    }

    /// What is used of a disk with a file system of its own, by that file system's account.
    async fn layered_bytes(&self, id: WorkspaceId) -> Option<u64> {
        let folder = self.layout.disk(id);
        let look = move || Some(LayeredDisk::open(&folder).ok()?.usage().ok()?.bytes_used);
        tokio::task::spawn_blocking(look).await.ok()?
    }
}

/// One look, without the second that Docker else waits for another to compare it with.
async fn one_look(docker: &Docker, name: &str) -> Result<ContainerStatsResponse, EngineError> {
    let options = StatsOptionsBuilder::new().stream(false).one_shot(true).build();
    let mut stats = std::pin::pin!(docker.stats(name, Some(options)));
    stats.next().await.transpose().map_err(EngineError::from).map(Option::unwrap_or_default)
}

fn cpu_time(stats: &ContainerStatsResponse) -> Option<Duration> {
    let spent = stats.cpu_stats.as_ref()?.cpu_usage.as_ref()?.total_usage?;
    Some(Duration::from_nanos(spent))
}

/// Without files that were only read or written and can be dropped.
fn in_use(memory: &ContainerMemoryStats) -> Option<u64> {
    let droppable = memory.stats.as_ref().and_then(|stats| {
        // The names of the first and of the second version of control groups.
        ["total_inactive_file", "inactive_file"].iter().find_map(|name| stats.get(*name).copied())
    });
    memory.usage.map(|used| used.saturating_sub(droppable.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn memory_is_what_cannot_be_dropped() {
        let of = |usage, names: &[(&str, u64)]| {
            let stats: HashMap<_, _> =
                names.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect();
            in_use(&ContainerMemoryStats { usage, stats: Some(stats), ..ContainerMemoryStats::default() })
        };
        assert_eq!(of(Some(100), &[("total_inactive_file", 30), ("inactive_file", 10)]), Some(70));
        assert_eq!(of(Some(100), &[("inactive_file", 10)]), Some(90));
        assert_eq!(of(Some(100), &[]), Some(100));
        assert_eq!(of(None, &[("inactive_file", 10)]), None);
    }
}
