//! Sessions that work in workspaces, one after the other.

use emergent_store::{Attachment, WorkspaceRow};
use emergent_types::WorkspaceId;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::actor::Aside;
use crate::{Handle, LifecycleError};

impl Handle {
    /// Lets a session in, where no other is. Succeeds at once where it is there already.
    pub async fn attach(&self, id: WorkspaceId, session: Uuid) -> Result<WorkspaceRow, LifecycleError> {
        let (reply, outcome) = oneshot::channel();
        self.ask_aside(id, Aside::Attach { session, reply }).await?;
        outcome.await.unwrap_or(Err(LifecycleError::NotFound { id }))
    }

    /// Lets a session go, or whoever is there. Succeeds at once where that one is not there.
    pub async fn detach(
        &self,
        id: WorkspaceId,
        session: Option<Uuid>,
    ) -> Result<WorkspaceRow, LifecycleError> {
        let (reply, outcome) = oneshot::channel();
        self.ask_aside(id, Aside::Detach { session, reply }).await?;
        outcome.await.unwrap_or(Err(LifecycleError::NotFound { id }))
    }

    /// The sessions that work and have worked in a workspace, in order.
    pub async fn attachments(&self, id: WorkspaceId) -> Result<Vec<Attachment>, LifecycleError> {
        self.entry(id)?;
        Ok(self.context.store.attachments(id).await?)
    }
}
