//! What can be had with this engine, found out by making a real sandbox and removing it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bollard::Docker;
use bollard::query_parameters::CreateImageOptionsBuilder;
use bytes::Bytes;
use emergent_agent_client::AgentKey;
use emergent_provider::{NamedDemands, Operation, ProviderError, SandboxSpec};
use emergent_types::{ByteSize, Cpu, NetworkMode, ResourceLimits, WorkspaceId};
use futures::TryStreamExt;

use crate::containers;
use crate::disk::{DiskKind, layered};
use crate::engine::EngineError;
use crate::health::TRY_AGAIN_AFTER;
use crate::host::Host;
use crate::image::{self, PresentImage};
use crate::network::{Connection, HELPER};
use crate::snapshot::COPIER;

/// An image with nothing in it: the agent brings itself.
const EMPTY_IMAGE: (&str, &str) = ("emergent/empty", "1");

/// Small, and enough for an agent that does nothing.
pub(crate) const TRIAL_LIMITS: ResourceLimits = ResourceLimits {
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
    /// When that was found out.
    pub(crate) at: Instant,
}

impl Means {
    /// Whether it is worth finding out again: what stood in the way may have been a full disk, or somebody has
    /// seen to it. What is best cannot become better.
    fn may_have_changed(&self, now: Instant) -> bool {
        self.why_volumes.is_some() && now.saturating_duration_since(self.at) >= TRY_AGAIN_AFTER
    }
}

/// What was found out, and the sandbox that is being tried right now.
#[derive(Default)]
pub(crate) struct Trial {
    found: tokio::sync::Mutex<Option<Means>>,
    known: Mutex<Option<Means>>,
    sandbox: Mutex<Option<WorkspaceId>>,
    /// Whether what earlier servers have left is gone.
    tidied: Mutex<bool>,
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

    fn set_known(&self, means: &Means) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(means.clone());
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
        if let Err(error) = self.remove_forgotten(docker).await {
            tracing::warn!("what an earlier server was working with stays for now: {error}");
        }
        self.trial.set_known(&means);
        Ok(found.insert(means).clone())
    }

    /// Tries again what failed some time ago. Workspaces keep the kind of disk that they were made with. On a
    /// task of its own: a trial may take longer than a health check, and must be undone to its end.
    pub(crate) fn reconsider_when_due(host: &Arc<Self>) {
        let Some(means) = host.trial.known().filter(|means| means.may_have_changed(Instant::now())) else {
            return;
        };
        // Not again while this goes on.
        let means = Means { at: Instant::now(), ..means };
        host.trial.set_known(&means);
        let host = Arc::clone(host);
        tokio::spawn(async move {
            match host.engine.docker().await {
                Ok(docker) => host.reconsider(&docker, means).await,
                Err(error) => tracing::debug!(%error, "hard disks are not tried again yet: {error}"),
            }
        });
    }

    /// Meanwhile creates go on with what is known.
    async fn reconsider(&self, docker: &Docker, means: Means) {
        let tried = match empty_image(docker).await {
            Ok(image) => self.try_hard_disks(docker, &image).await,
            Err(error) => Err(error.to_string()),
        };
        let again = match tried {
            Ok(means) => {
                tracing::info!(provider = %self.kind(), "provider {} can limit disks by now", self.kind());
                means
            }
            Err(why) => Means { why_volumes: Some(why), at: Instant::now(), ..means },
        };
        let mut found = self.trial.found.lock().await;
        // Where Docker was away meanwhile, everything is tried anew anyway.
        if found.is_some() {
            self.trial.set_known(&again);
            *found = Some(again);
        }
    }

    async fn try_out(&self, docker: &Docker) -> Result<Means, ProviderError> {
        let image = empty_image(docker).await.map_err(|error| self.unavailable(error))?;
        let why = match self.try_hard_disks(docker, &image).await {
            Ok(means) => return Ok(means),
            Err(why) => why,
        };
        self.try_sandbox(docker, &image, DiskKind::Volumes, None).await?;
        Ok(Means { disk: DiskKind::Volumes, why_volumes: Some(why), at: Instant::now() })
    }

    /// Whether disks can have a file system of the asked size; if not, why. What can be seen to be in the way
    /// costs nothing.
    async fn try_hard_disks(&self, docker: &Docker, image: &PresentImage) -> Result<Means, String> {
        if let Some(obstacle) = layered::obstacle(self.engine.address().socket().is_some()) {
            return Err(obstacle);
        }
        match self.try_sandbox(docker, image, DiskKind::Layered, None).await {
            Ok(()) => Ok(Means { disk: DiskKind::Layered, why_volumes: None, at: Instant::now() }),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Removes containers that did something for an earlier server when it was killed. Once: from then on there
    /// may be some of this one's.
    async fn remove_forgotten(&self, docker: &Docker) -> Result<(), EngineError> {
        if *self.trial.tidied.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(());
        }
        for role in [COPIER, HELPER] {
            containers::remove_all(docker, &self.names.role_filter(role)).await?;
        }
        *self.trial.tidied.lock().unwrap_or_else(PoisonError::into_inner) = true;
        Ok(())
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
            volumes: Vec::new(),
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
        let removed = self.remove_trial(docker, id).await;
        self.trial.set_under_way(None);
        made.and(removed)
    }
}

/// The image with nothing in it, made where it is missing.
pub(crate) async fn empty_image(docker: &Docker) -> Result<PresentImage, EngineError> {
    /// Two imports at once make two images, of which one has no name.
    static IMPORTING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let _alone = IMPORTING.lock().await;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_failed_is_tried_again_and_not_at_once() {
        let at = Instant::now();
        let check = |why: Option<&str>, later, expect| {
            let means = Means { disk: DiskKind::Volumes, why_volumes: why.map(str::to_owned), at };
            assert_eq!(means.may_have_changed(at + later), expect, "{why:?} after {later:?}");
        };
        let moment = std::time::Duration::from_secs(1);
        check(Some("no room"), TRY_AGAIN_AFTER - moment, false);
        check(Some("no room"), TRY_AGAIN_AFTER, true);
        check(None, TRY_AGAIN_AFTER * 2, false);
    }
}
