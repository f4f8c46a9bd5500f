//! Disks as Docker's own volumes.

use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::models::Mount;
use bollard::query_parameters::InspectContainerOptionsBuilder;
use emergent_host_disk::Geometry;
use emergent_provider::{DiskUse, Operation, ProviderError, SandboxSpec};
use emergent_types::WorkspaceId;

use futures::StreamExt;

use super::{DiskKind, volume_mount};
use crate::agent_volume;
use crate::container::WORKSPACE;
use crate::containers::{self, Condition};
use crate::engine::{EngineError, MissingIsFine};
use crate::host::Host;
use crate::options::Runtime;
use crate::stream::Output;

/// How long counting may take, and how much may be printed.
const COUNT_LIMIT: Duration = Duration::from_secs(90);
const MAX_PRINTED: usize = 1024;

impl Host {
    pub(crate) async fn make_volumes(
        &self,
        docker: &Docker,
        operation: Operation,
        spec: &SandboxSpec,
        image: &str,
    ) -> Result<Vec<Mount>, ProviderError> {
        let (id, size) = (spec.id, spec.limits.disk);
        for name in [self.names.workspace_volume(id), self.names.home_volume(id)] {
            let made = self.make_volume(docker, id, name, DiskKind::Volumes, image, size, &[]).await;
            made.map_err(self.docker_step(operation, id, "volume"))?;
        }
        Ok(self.volume_mounts(id))
    }

    pub(super) fn volume_mounts(&self, id: WorkspaceId) -> Vec<Mount> {
        vec![
            volume_mount(self.names.workspace_volume(id), WORKSPACE),
            volume_mount(self.names.home_volume(id), "/home"),
        ]
    }

    /// Counted by the agent's program, in the container: Docker's own account of volumes is another one
    /// in every version. What is written elsewhere counts as well. What is stopped does not grow, so it is not
    /// counted.
    pub(super) async fn measure_volumes(
        &self,
        docker: &Docker,
        id: WorkspaceId,
    ) -> Result<DiskUse, EngineError> {
        let command = [agent_volume::PROGRAM, "measure", WORKSPACE, "/home"].map(str::to_owned).to_vec();
        let max_bytes = self.asked_disk(docker, id).await?;
        let nothing = DiskUse { bytes: 0, max_bytes, files: 0, max_files: 1, uncounted: false };
        let Some((output, _input)) = self.exec(docker, id, command).await? else { return Ok(nothing) };
        let printed = collect(output).await;
        let numbers: Vec<u64> = printed.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        Ok(match numbers.as_slice() {
            [bytes, files, uncounted, elsewhere @ ..] => DiskUse {
                bytes: bytes.saturating_add(match elsewhere {
                    [] => self.written_layer(docker, id).await?,
                    counted => counted.iter().sum(),
                }),
                max_bytes,
                files: *files,
                max_files: Geometry::for_size(max_bytes).inodes(),
                uncounted: *uncounted != 0,
            },
            _ => {
                // It was kept from counting: where it was not stopped meanwhile, by whom else than the sandbox.
                let seen = containers::look(docker, &self.names.container(id)).await?;
                let is_running = seen.is_some_and(|seen| seen.condition == Condition::Running);
                DiskUse { uncounted: is_running, ..nothing }
            }
        })
    }

    /// What a container has written outside its volumes, by Docker's account. Under gVisor that is of no use:
    /// there it is the length of one file, most of which are holes, and the agent has the number, unless the
    /// runtime is registered with another kind of overlay than it has by itself.
    async fn written_layer(&self, docker: &Docker, id: WorkspaceId) -> Result<u64, EngineError> {
        if self.options.runtime == Runtime::Runsc {
            return Ok(0);
        }
        let with_size = InspectContainerOptionsBuilder::new().size(true).build();
        match docker.inspect_container(&self.names.container(id), Some(with_size)).await {
            Ok(seen) => Ok(seen.size_rw.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0)),
            // Removed meanwhile.
            Err(error) => Err(error).missing_is_fine().map(|()| 0),
        }
    }
}

/// What it printed, within reason.
pub(crate) async fn collect(mut output: Output) -> String {
    let mut printed = Vec::new();
    let reading = async {
        while let Some(Ok(piece)) = output.next().await {
            if let LogOutput::StdOut { message } = piece {
                printed.extend_from_slice(&message);
            }
            if printed.len() > MAX_PRINTED {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(COUNT_LIMIT, reading).await;
    String::from_utf8_lossy(&printed).into_owned()
}
