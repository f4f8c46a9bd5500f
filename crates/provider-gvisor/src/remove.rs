//! Ending a sandbox: with its disk kept (stop), in place and to go on (suspend, wake), or with everything (destroy).

use bollard::Docker;
use emergent_provider::{Operation, ProviderError};
use emergent_types::WorkspaceId;

use crate::containers::{self, Condition};
use crate::engine::EngineError;
use crate::host::Host;

impl Host {
    /// See [`WorkspaceProvider::stop`](emergent_provider::WorkspaceProvider::stop).
    pub(crate) async fn stop(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        let docker = self.docker().await?;
        if !self.has_disk(&docker, id).await.map_err(self.docker_step(
            Operation::Stop,
            id,
            "look for its volume",
        ))? {
            return Err(self.not_found(id));
        }
        self.end(&docker, Operation::Stop, id).await?;
        self.set_disk_aside(Operation::Stop, id).await
    }

    /// See [`WorkspaceProvider::ended_for_want_of_memory`](emergent_provider::WorkspaceProvider::ended_for_want_of_memory).
    pub(crate) async fn ended_for_want_of_memory(&self, id: WorkspaceId) -> bool {
        let Ok(docker) = self.docker().await else { return false };
        let seen = containers::look(&docker, &self.names.container(id)).await;
        // Not knowing is no evidence.
        let condition = seen.ok().flatten().map(|seen| seen.condition);
        condition == Some(Condition::Ended { out_of_memory: true })
    }

    /// See [`WorkspaceProvider::destroy`](emergent_provider::WorkspaceProvider::destroy).
    pub(crate) async fn destroy(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        let docker = self.docker().await?;
        self.remove_everything(&docker, Operation::Destroy, id).await
    }

    /// Everything of one sandbox. What is not there is success.
    pub(crate) async fn remove_everything(
        &self,
        docker: &Docker,
        operation: Operation,
        id: WorkspaceId,
    ) -> Result<(), ProviderError> {
        self.end(docker, operation, id).await?;
        self.remove_disk(docker, operation, id).await
    }

    /// Ends the container, and every stream into it.
    async fn end(&self, docker: &Docker, operation: Operation, id: WorkspaceId) -> Result<(), ProviderError> {
        let name = self.names.container(id);
        // Of what is killed while it stands still, Docker does not always learn that it has ended. Most often this is
        // refused, because it does not stand still.
        let _ = docker.unpause_container(&name).await;
        let removed = containers::remove(docker, &name).await;
        self.streams.end(id);
        removed.map_err(self.docker_step(operation, id, "remove the container"))
    }

    /// Stops every process where it is, memory kept.
    pub(crate) async fn suspend(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        let docker = self.docker().await?;
        let name = self.names.container(id);
        let failed = |step| move |error: EngineError| self.docker_step(Operation::Suspend, id, step)(error);
        match containers::look(&docker, &name).await.map_err(failed("look for its container"))? {
            None => Err(self.not_found(id)),
            Some(seen) if seen.condition == Condition::Paused => Ok(()),
            Some(seen) if seen.condition == Condition::Running => {
                docker.pause_container(&name).await.map_err(EngineError::from).map_err(failed("pause"))
            }
            Some(_) => Err(self.not_running(id)),
        }
    }

    /// Lets them go on. Asked first and looked at only where that fails: most often it stands still, and
    /// somebody waits.
    pub(crate) async fn wake(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        let docker = self.docker().await?;
        let name = self.names.container(id);
        let Err(error) = docker.unpause_container(&name).await.map_err(EngineError::from) else {
            return Ok(());
        };
        let failed = |step| move |error: EngineError| self.docker_step(Operation::Wake, id, step)(error);
        match containers::look(&docker, &name).await.map_err(failed("look for its container"))? {
            None => Err(self.not_found(id)),
            Some(seen) if seen.condition == Condition::Running => Ok(()),
            Some(seen) if seen.condition == Condition::Paused => {
                Err(failed("let the container go on")(error))
            }
            Some(_) => Err(self.not_running(id)),
        }
    }
}
