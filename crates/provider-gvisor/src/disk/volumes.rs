//! Disks as Docker's own volumes.

use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::models::Mount;
use emergent_host_disk::Geometry;
use emergent_provider::{DiskUse, Operation, ProviderError, SandboxSpec};
use emergent_types::WorkspaceId;

use futures::StreamExt;

use super::{DiskKind, volume_mount};
use crate::agent_volume;
use crate::container::WORKSPACE;
use crate::engine::EngineError;
use crate::host::Host;
use crate::stream::Output;

/// How long counting may take, and how much may be printed.
const COUNT_LIMIT: Duration = Duration::from_secs(90);
const MAX_PRINTED: usize = 1024;

impl Host {
    pub(super) async fn make_volumes(
        &self,
        docker: &Docker,
        spec: &SandboxSpec,
        image: &str,
    ) -> Result<Vec<Mount>, ProviderError> {
        let (id, size) = (spec.id, spec.limits.disk);
        for name in [self.names.workspace_volume(id), self.names.home_volume(id)] {
            let made = self.make_volume(docker, id, name, DiskKind::Volumes, image, size, &[]).await;
            made.map_err(self.docker_step(Operation::Create, id, "volume"))?;
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
    /// in every version. What is stopped does not grow, so it is not counted.
    pub(super) async fn measure_volumes(
        &self,
        docker: &Docker,
        id: WorkspaceId,
    ) -> Result<DiskUse, EngineError> {
        let command = [agent_volume::PROGRAM, "measure", WORKSPACE, "/home"].map(str::to_owned).to_vec();
        let max_bytes = self.asked_disk(docker, id).await?;
        let Some((output, _input)) = self.exec(docker, id, command).await? else {
            return Ok(DiskUse { bytes: 0, max_bytes, files: 0, max_files: 1, uncounted: false });
        };
        let printed = collect(output).await;
        let numbers: Vec<u64> = printed.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        Ok(match numbers.as_slice() {
            [bytes, files, uncounted] => DiskUse {
                bytes: *bytes,
                max_bytes,
                files: *files,
                max_files: Geometry::for_size(max_bytes).inodes(),
                uncounted: *uncounted != 0,
            },
            // It was kept from counting, by whom else than the sandbox.
            _ => DiskUse { bytes: 0, max_bytes, files: 0, max_files: 1, uncounted: true },
        })
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
