//! Whether it works here, found out by making a real sandbox and removing it.

use std::sync::{Mutex, PoisonError};

use emergent_agent_client::AgentKey;
use emergent_provider::{NamedDemands, Operation, ProviderError, SandboxSpec};
use emergent_types::{NetworkMode, WorkspaceId};

use super::host::Host;
use super::layout::private_folder;
use crate::means::TRIAL_LIMITS;

/// What was found out, and the sandbox that is being tried right now.
#[derive(Default)]
pub(super) struct Trial {
    works: tokio::sync::Mutex<bool>,
    version: Mutex<Option<String>>,
    sandbox: Mutex<Option<WorkspaceId>>,
}

impl Trial {
    /// The sandbox that is being tried right now; nobody else's business.
    pub(super) fn under_way(&self) -> Option<WorkspaceId> {
        *self.sandbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_under_way(&self, id: Option<WorkspaceId>) {
        *self.sandbox.lock().unwrap_or_else(PoisonError::into_inner) = id;
    }

    /// What runsc said of itself when it was tried.
    pub(super) fn version(&self) -> Option<String> {
        self.version.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It is tried again: something is missing that was there.
    pub(super) async fn forget(&self) {
        *self.works.lock().await = false;
    }
}

impl Host {
    /// Makes sure that sandboxes can be made. Tried once, and again for as long as that fails.
    pub(super) async fn try_out(&self) -> Result<(), ProviderError> {
        let mut works = self.trial.works.lock().await;
        if *works {
            return Ok(());
        }
        if let Some(obstacle) = self.obstacle() {
            return Err(self.unavailable(obstacle));
        }
        for folder in [self.layout.runsc(), self.layout.sandboxes()] {
            private_folder(&folder)
                .map_err(|error| self.unavailable(format!("{}: {error}", folder.display())))?;
        }
        let version = self.runsc.version().await.map_err(|error| self.unavailable(error))?;
        *self.trial.version.lock().unwrap_or_else(PoisonError::into_inner) = Some(version.clone());
        self.try_sandbox(NetworkMode::Isolated).await?;
        tracing::info!(provider = %self.kind(), mode = "direct", version,
            "provider {} works without Docker (runsc {version})", self.kind());
        self.tidy().await;
        *works = true;
        Ok(())
    }

    /// Finds out whether sandboxes can be let out and are held back all the same.
    pub(super) async fn try_internet(&self) -> Result<(), String> {
        self.try_sandbox(NetworkMode::Internet).await.map_err(|error| error.to_string())
    }

    async fn try_sandbox(&self, network: NetworkMode) -> Result<(), ProviderError> {
        let id = WorkspaceId::generate();
        let spec = SandboxSpec {
            id,
            limits: TRIAL_LIMITS,
            network,
            base_image: None,
            volumes: Vec::new(),
            named: NamedDemands::default(),
            agent_key: AgentKey::derive(id.as_uuid().as_bytes(), id),
        };
        self.trial.set_under_way(Some(id));
        let tried = async {
            let image = self.images.empty().map_err(|error| self.unavailable(error))?;
            let launched = self.make(&spec, &image).await?;
            match &launched.connection {
                Some(connection) => self.probe_internet(id, connection).await.map_err(|reason| {
                    ProviderError::NotEnforceable { provider: self.kind(), what: "network", reason }
                }),
                None => Ok(()),
            }
        };
        let tried = tried.await;
        let removed = self.remove_everything(Operation::Destroy, id).await;
        self.trial.set_under_way(None);
        tried.and(removed)
    }
}
