//! Starting a stopped sandbox again: a new container around the kept disk.

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
                return self.describe_running(&docker, Operation::Resume, spec).await;
            }
            Some(seen) if seen.condition == Condition::Paused => {
                docker
                    .unpause_container(&name)
                    .await
                    .map_err(EngineError::from)
                    .map_err(failed("let the container go on"))?;
                return self.describe_running(&docker, Operation::Resume, spec).await;
            }
            Some(_) => {
                containers::remove(&docker, &name).await.map_err(failed("remove the ended container"))?;
            }
            None => {}
        }
        let disk = self.kept_disk(&docker, spec).await?;
        self.agent.ensure(&docker, &disk.image.id).await.map_err(failed("volume of the agent"))?;
        let resumed = self.start_around(&docker, Operation::Resume, spec, disk).await;
        if resumed.is_err() {
            self.set_disk_aside(Operation::Resume, spec.id).await?;
        }
        resumed
    }
}
