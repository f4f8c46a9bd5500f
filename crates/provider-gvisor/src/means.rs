//! What can be had with this engine, found out by making a real sandbox and removing it.

use std::sync::{Mutex, PoisonError};

use bollard::Docker;
use bollard::query_parameters::CreateImageOptionsBuilder;
use bytes::Bytes;
use emergent_agent_client::AgentKey;
use emergent_provider::{NamedDemands, Operation, ProviderError, SandboxSpec};
use emergent_types::{ByteSize, Cpu, NetworkMode, ResourceLimits, WorkspaceId};
use futures::TryStreamExt;

use crate::disk::{DiskKind, layered};
use crate::engine::EngineError;
use crate::host::Host;
use crate::image::{self, PresentImage};
use crate::network::Connection;

/// An image with nothing in it: the agent brings itself.
const EMPTY_IMAGE: (&str, &str) = ("emergent/empty", "1");

/// Small, and enough for an agent that does nothing.
const TRIAL_LIMITS: ResourceLimits = ResourceLimits {
    cpu: Cpu::from_millis(1000),
    memory: ByteSize::from_mib(64),
    disk: ByteSize::from_mib(16),
};

/// What can be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Means {
    pub(crate) disk: DiskKind,
    /// Why disks are not limited by a file system of their own, where they are not.
    pub(crate) why_volumes: Option<String>,
}

/// What was found out, and the sandbox that is being tried right now.
#[derive(Default)]
pub(crate) struct Trial {
    found: tokio::sync::Mutex<Option<Means>>,
    known: Mutex<Option<Means>>,
    sandbox: Mutex<Option<WorkspaceId>>,
}

impl Trial {
    /// What is known already.
    pub(crate) fn known(&self) -> Option<Means> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The sandbox that is being tried right now; nobody else's business.
    pub(crate) fn under_way(&self) -> Option<WorkspaceId> {
        *self.sandbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_under_way(&self, id: Option<WorkspaceId>) {
        *self.sandbox.lock().unwrap_or_else(PoisonError::into_inner) = id;
    }

    /// It is tried again: the engine may be another one.
    pub(crate) async fn forget(&self) {
        *self.found.lock().await = None;
    }
}

impl Host {
    /// What can be had. Tried once, and again for as long as that fails.
    pub(crate) async fn means(&self, docker: &Docker) -> Result<Means, ProviderError> {
        let mut found = self.trial.found.lock().await;
        if let Some(means) = &*found {
            return Ok(means.clone());
        }
        let means = self.try_out(docker).await?;
        tracing::info!(provider = %self.kind(), disk = ?means.disk, why = means.why_volumes,
            "provider {} works", self.kind());
        if let Err(error) = self.agent.prune(docker).await {
            tracing::warn!("agents of earlier servers stay for now: {error}");
        }
        *self.trial.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(means.clone());
        Ok(found.insert(means).clone())
    }

    async fn try_out(&self, docker: &Docker) -> Result<Means, ProviderError> {
        let image = empty_image(docker).await.map_err(|error| self.unavailable(error))?;
        let why_volumes = match layered::obstacle(self.engine.address().socket().is_some()) {
            Some(obstacle) => obstacle,
            None => match self.try_sandbox(docker, &image, DiskKind::Layered, None).await {
                Ok(()) => return Ok(Means { disk: DiskKind::Layered, why_volumes: None }),
                Err(error) => error.to_string(),
            },
        };
        self.try_sandbox(docker, &image, DiskKind::Volumes, None).await?;
        Ok(Means { disk: DiskKind::Volumes, why_volumes: Some(why_volumes) })
    }

    /// Finds out whether sandboxes can be let out and are held back all the same.
    pub(crate) async fn try_internet(&self, docker: &Docker, disk: DiskKind) -> Result<(), String> {
        let image = empty_image(docker).await.map_err(|error| error.to_string())?;
        let connection = self.internet(docker).await.map_err(|reason| reason.to_string())?;
        self.try_sandbox(docker, &image, disk, Some(&connection)).await.map_err(|error| error.to_string())
    }

    async fn try_sandbox(
        &self,
        docker: &Docker,
        image: &PresentImage,
        kind: DiskKind,
        connection: Option<&Connection>,
    ) -> Result<(), ProviderError> {
        let id = WorkspaceId::generate();
        let spec = SandboxSpec {
            id,
            limits: TRIAL_LIMITS,
            network: connection.map_or(NetworkMode::Isolated, |_| NetworkMode::Internet),
            base_image: None,
            named: NamedDemands::default(),
            agent_key: AgentKey::derive(id.as_uuid().as_bytes(), id),
        };
        self.trial.set_under_way(Some(id));
        let tried = async {
            self.agent.ensure(docker, &image.id).await.map_err(self.docker_step(
                Operation::Create,
                id,
                "volume of the agent",
            ))?;
            self.make(docker, &spec, image, kind).await?;
            match connection {
                Some(connection) => self
                    .probe_internet(docker, id, connection)
                    .await
                    .map_err(|reason| self.no_internet(Operation::Create, id, &reason)),
                None => Ok(()),
            }
        };
        let made = tried.await;
        let removed = self.remove_everything(docker, Operation::Destroy, id).await;
        self.trial.set_under_way(None);
        made.and(removed)
    }
}

/// The image with nothing in it, made where it is missing.
async fn empty_image(docker: &Docker) -> Result<PresentImage, EngineError> {
    let (repository, tag) = EMPTY_IMAGE;
    let name = format!("{repository}:{tag}");
    if let Some(image) = image::present(docker, &name).await? {
        return Ok(image);
    }
    let options = CreateImageOptionsBuilder::new().from_src("-").repo(repository).tag(tag).build();
    // Two empty blocks are an archive without entries.
    let nothing = bollard::body_full(Bytes::from_static(&[0; 1024]));
    docker.create_image(Some(options), Some(nothing), None).try_collect::<Vec<_>>().await?;
    image::present(docker, &name).await?.ok_or_else(|| {
        bollard::errors::Error::DockerStreamError { error: format!("{name} was imported and is not there") }
            .into()
    })
}
