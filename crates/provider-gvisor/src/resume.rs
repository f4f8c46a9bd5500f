//! Starting a stopped sandbox again: a new container around the kept disk.

use bollard::Docker;
use emergent_provider::{Operation, ProviderError, Sandbox, SandboxSpec};

use crate::containers::{self, Condition};
use crate::engine::EngineError;
use crate::host::Host;

impl Host {
    /// See [`WorkspaceProvider::resume`](emergent_provider::WorkspaceProvider::resume).
    pub(crate) async fn resume(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let docker = self.docker().await?;
        self.check_runtime(&docker).await?;
        let failed =
            |step| move |error: EngineError| self.docker_step(Operation::Resume, spec.id, step)(error);
        let name = self.names.container(spec.id);
        match containers::look(&docker, &name).await.map_err(failed("look for its container"))? {
            Some(seen) if seen.condition == Condition::Running => {
                return self.describe_kept(&docker, spec).await;
            }
            Some(seen) if seen.condition == Condition::Paused => {
                docker
                    .unpause_container(&name)
                    .await
                    .map_err(EngineError::from)
                    .map_err(failed("let the container go on"))?;
                return self.describe_kept(&docker, spec).await;
            }
            Some(_) => {
                containers::remove(&docker, &name).await.map_err(failed("remove the ended container"))?;
            }
            None => {}
        }
        let disk = self.kept_disk(&docker, spec.id).await?;
        self.agent.ensure(&docker, &disk.image).await.map_err(failed("volume of the agent"))?;
        let kind = disk.kind;
        let launched = async {
            let plan = self.plan(&docker, Operation::Resume, spec, disk).await?;
            self.launch(&docker, Operation::Resume, plan).await
        };
        let launched = launched.await;
        if launched.is_err() {
            self.set_disk_aside(Operation::Resume, spec.id).await?;
        }
        launched.map(|()| self.describe(spec, kind))
    }

    /// What a sandbox is that was there.
    async fn describe_kept(&self, docker: &Docker, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let kind = self.disk_kind(docker, spec.id).await.map_err(self.docker_step(
            Operation::Resume,
            spec.id,
            "look for its volume",
        ))?;
        kind.map(|kind| self.describe(spec, kind)).ok_or_else(|| self.not_found(spec.id))
    }
}
