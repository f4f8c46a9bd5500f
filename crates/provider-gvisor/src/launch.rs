//! Starting a container around a workspace's disk, and the first connection to its agent.
//!
//! ```text
//!  create container ─► attach ─► start ─► key over standard input ─► the agent speaks
//!        │                                                                │
//!        └── whatever fails: container removed, disk left to the caller   └► kept for connect
//! ```

use std::time::Duration;

use bollard::Docker;
use bollard::models::Mount;
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, StartContainerOptions,
};
use emergent_provider::{Operation, ProviderError, SandboxSpec};
use emergent_types::NetworkMode;
use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;

use crate::container::Plan;
use crate::containers;
use crate::disk::{DiskKind, ReadyDisk};
use crate::engine::EngineError;
use crate::host::Host;
use crate::stream::ProcessStream;

/// How long an agent may take to speak, from the start of its container.
const START_LIMIT: Duration = Duration::from_secs(30);

/// How long the first connection is kept for somebody who wants it.
const FIRST_CONNECTION_KEPT: Duration = Duration::from_secs(60);

impl Host {
    /// Starts a sandbox. On error no container is left.
    pub(crate) async fn launch(
        &self,
        docker: &Docker,
        operation: Operation,
        plan: Plan<'_>,
    ) -> Result<(), ProviderError> {
        let (id, name) = (plan.spec.id, self.names.container(plan.spec.id));
        let key = plan.spec.agent_key.expose_hex();
        let ended = self.streams.begin(id);
        let started = self.start(docker, operation, plan, &key, ended).await;
        match started {
            Ok(stream) => {
                self.streams.keep_first(id, stream, FIRST_CONNECTION_KEPT);
                Ok(())
            }
            Err(error) => {
                self.streams.end(id);
                // It may have failed because the agent's volume is not what it was.
                self.agent.doubt().await;
                // Or because somebody has removed the network.
                self.internet.doubt().await;
                containers::remove(docker, &name)
                    .await
                    .map_err(|left| self.step(operation, id, "remove the failed container", left))?;
                Err(error)
            }
        }
    }

    async fn start(
        &self,
        docker: &Docker,
        operation: Operation,
        plan: Plan<'_>,
        key: &str,
        ended: CancellationToken,
    ) -> Result<ProcessStream, ProviderError> {
        let id = plan.spec.id;
        let name = self.names.container(id);
        let failed = |step| move |error: EngineError| self.step(operation, id, step, error);
        let named = CreateContainerOptionsBuilder::new().name(&name).build();
        let created = docker.create_container(Some(named), plan.body()).await;
        for warning in created.map_err(EngineError::from).map_err(failed("create the container"))?.warnings {
            tracing::warn!(workspace = %id, "Docker says of workspace {id}: {warning}");
        }
        // Before it is started, so that nothing it says is missed.
        let all = AttachContainerOptionsBuilder::new().stream(true).stdin(true).stdout(true).stderr(true);
        let attached = docker
            .attach_container(&name, Some(all.build()))
            .await
            .map_err(EngineError::from)
            .map_err(failed("attach to the container"))?;
        let mut stream = ProcessStream::new(attached.output, attached.input, ended);
        docker
            .start_container(&name, None::<StartContainerOptions>)
            .await
            .map_err(EngineError::from)
            .map_err(failed("start the container"))?;
        let greeted = async {
            stream.write_all(format!("{key}\n").as_bytes()).await?;
            stream.flush().await?;
            stream.speaks().await
        };
        match tokio::time::timeout(START_LIMIT, greeted).await {
            Ok(Ok(true)) => Ok(stream),
            Ok(Ok(false)) => {
                let seen = containers::look(docker, &name).await.ok().flatten();
                let state = seen.and_then(|seen| seen.raw.state);
                let told = state.map_or_else(String::new, |state| {
                    format!(" (exit code {:?}, {})", state.exit_code, state.error.unwrap_or_default())
                });
                Err(self.step(operation, id, "agent", format!("it ended at once{told}")))
            }
            Ok(Err(error)) => Err(self.step(operation, id, "agent", error)),
            Err(_) => {
                Err(ProviderError::TimedOut { provider: self.kind(), operation, id, limit: START_LIMIT })
            }
        }
    }

    /// A plan with what every sandbox of this provider has. Where it is to have a network, the rules are
    /// in place when this returns.
    pub(crate) async fn plan<'a>(
        &self,
        docker: &Docker,
        operation: Operation,
        spec: &'a SandboxSpec,
        disk: ReadyDisk,
    ) -> Result<Plan<'a>, ProviderError> {
        let connection = match spec.network {
            NetworkMode::Isolated => None,
            NetworkMode::Internet => {
                let connection = self.internet(docker).await;
                Some(connection.map_err(|reason| self.no_internet(operation, spec.id, &reason))?)
            }
        };
        let mut mounts = vec![self.agent.mount()];
        let volumes = self.named_volumes(docker, operation, spec, disk.kind).await?;
        // A folder of the disk's in whose place there is a volume is not bound.
        let is_taken = |mount: &Mount| volumes.iter().any(|volume| volume.target == mount.target);
        mounts.extend(disk.mounts.into_iter().filter(|mount| !is_taken(mount)));
        mounts.extend(volumes);
        if let (Some(connection), DiskKind::Layered) = (&connection, disk.kind) {
            mounts.push(self.resolver_file(operation, spec.id, &connection.nameservers).await?);
        }
        Ok(Plan {
            spec,
            runtime: self.options.runtime,
            labels: self.names.labels(spec.id),
            image: disk.image.id,
            environment: disk.image.environment,
            mounts,
            read_only: disk.kind == DiskKind::Layered,
            connection,
            host_cpus: self.engine_cpus(),
        })
    }
}
