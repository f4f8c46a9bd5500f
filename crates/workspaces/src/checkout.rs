//! Code that a workspace starts with. Who brings it knows git, hosts and credentials; here is only when.

use std::fmt;

use async_trait::async_trait;
use emergent_agent_client::AgentClient;
use emergent_store::{Repository, RepositoryState, WorkspaceRow};
use emergent_types::WorkspaceId;
use tokio::sync::oneshot;

use crate::actor::Aside;
use crate::{Handle, LifecycleError};

/// Who checks out the code of workspaces.
#[async_trait]
pub trait CodeCheckout: Send + Sync {
    /// Checks out one repository in a workspace that is being made, and says what came of it: there is
    /// always an outcome. May be cancelled by dropping it and begun again; what an earlier attempt left is
    /// removed first.
    async fn check_out(
        &self,
        workspace: &WorkspaceRow,
        repository: &Repository,
        agent: &AgentClient,
    ) -> RepositoryState;

    /// How far that is, for people.
    fn progress(&self, id: WorkspaceId) -> Option<String>;
}

impl fmt::Debug for dyn CodeCheckout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CodeCheckout")
    }
}

impl Handle {
    /// One more repository belongs to a workspace: programs in it may fetch from there and push to it.
    pub async fn add_repository(
        &self,
        id: WorkspaceId,
        repository: Repository,
    ) -> Result<WorkspaceRow, LifecycleError> {
        let (reply, outcome) = oneshot::channel();
        self.ask_aside(id, Aside::Repository { repository, reply }).await?;
        outcome.await.unwrap_or(Err(LifecycleError::NotFound { id }))
    }
}
