//! What the API works with.

use std::num::NonZeroU32;
use std::sync::Arc;

use emergent_orchestrator::ProviderStatus;
use emergent_store::{InsertWorkspaceError, WorkspaceCursor, WorkspaceFilter, WorkspacePage, WorkspaceRow};
use emergent_types::{NetworkMode, ProviderChoice, ProviderKind, WorkspaceId, WorkspaceStatus};
use tokio::sync::oneshot;
use tracing::Instrument;

use crate::actor::{Actor, Phase, Request};
use crate::admission::Wish;
use crate::service::{Context, Entry};
use crate::tools::ToolCall;
use crate::{CreateError, LifecycleError, NewWorkspace, ToolError};

/// What is known of one provider.
#[derive(Debug, Clone)]
pub struct ProviderView {
    /// Health and capabilities.
    pub status: ProviderStatus,
    /// Workspaces it runs now.
    pub active_workspaces: u32,
}

/// What the API works with. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    context: Arc<Context>,
}

impl Handle {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context }
    }

    /// Creates a workspace. With `wait`, answers when it is ready, and a failure leaves no
    /// row; without, answers at once, and a failure stays visible in the row. Cancelling the
    /// wait does not cancel the creation.
    pub async fn create(&self, new: NewWorkspace, wait: bool) -> Result<WorkspaceRow, CreateError> {
        let handle = self.clone();
        // On a task of its own: whoever goes away in the very moment in which the row is written
        // must not leave a row without an owner.
        let creating = async move { handle.create_to_the_end(new, wait).await }.in_current_span();
        let lost = |error: tokio::task::JoinError| CreateError::Rejected { reason: error.to_string() };
        tokio::spawn(creating).await.map_err(lost)?
    }

    async fn create_to_the_end(&self, new: NewWorkspace, wait: bool) -> Result<WorkspaceRow, CreateError> {
        if self.context.is_closing() {
            return Err(CreateError::ShuttingDown);
        }
        let network = self.network_for(&new).await;
        let mut row = new.to_row(&self.context.options, network, !wait);
        if new.network.is_none() && network != self.context.options.default_network {
            row.warnings.push(format!(
                "the default network mode \"{}\" cannot be enforced here; the workspace is \"{network}\"",
                self.context.options.default_network
            ));
        }
        self.context.store.insert_workspace(&row, self.context.options.max_concurrent).await.map_err(
            |error| match error {
                InsertWorkspaceError::LimitReached { active, max, .. } => {
                    CreateError::LimitReached { active, max }
                }
                InsertWorkspaceError::Store(error) => CreateError::Store(error),
                error => CreateError::Rejected { reason: error.to_string() },
            },
        )?;
        if !wait {
            return Ok(Actor::spawn(&self.context, row, Phase::Creating { reply: None }).row());
        }
        let id = row.id;
        let (reply, outcome) = oneshot::channel();
        Actor::spawn(&self.context, row, Phase::Creating { reply: Some(reply) });
        outcome.await.unwrap_or(Err(CreateError::Destroyed { id }))
    }

    /// The network of a new workspace. One that the request names is kept and refused later
    /// where it cannot be enforced; a default that no provider in question can enforce gives
    /// way to isolation, never the other way round.
    async fn network_for(&self, new: &NewWorkspace) -> NetworkMode {
        if let Some(named) = new.network {
            return named;
        }
        let default = self.context.options.default_network;
        for provider in self.context.orchestrator.providers() {
            let in_question = match new.provider {
                ProviderChoice::Auto => true,
                ProviderChoice::Explicit(kind) => provider.kind() == kind,
            };
            if in_question && provider.capabilities().await.networks.contains(&default) {
                return default;
            }
        }
        NetworkMode::Isolated
    }

    /// One workspace.
    pub async fn get(&self, id: WorkspaceId) -> Result<WorkspaceRow, LifecycleError> {
        self.entry(id).map(|entry| entry.row())
    }

    /// A page of workspaces, newest first.
    pub async fn list(
        &self,
        filter: WorkspaceFilter,
        after: Option<WorkspaceCursor>,
        limit: NonZeroU32,
    ) -> Result<WorkspacePage, LifecycleError> {
        let mut page = self.context.store.list_workspaces(filter, after, limit).await?;
        for row in &mut page.items {
            // Uses are written with a delay; the owner knows better.
            if let Some(entry) = self.context.registry.get(row.id) {
                let live = entry.row();
                (row.last_used_at, row.expires_at) = (live.last_used_at, live.expires_at);
            }
        }
        Ok(page)
    }

    /// Ends all processes and keeps the disk. Succeeds at once where it is so already.
    pub async fn stop(&self, id: WorkspaceId) -> Result<WorkspaceRow, LifecycleError> {
        self.wish(id, Wish::Stop).await
    }

    /// Starts a stopped workspace again. Succeeds at once where it runs already.
    pub async fn resume(&self, id: WorkspaceId) -> Result<WorkspaceRow, LifecycleError> {
        self.wish(id, Wish::Resume).await
    }

    /// Removes a workspace with everything that belongs to it. A second call while the first
    /// is under way shares its outcome; afterwards it is `NotFound`.
    pub async fn destroy(&self, id: WorkspaceId) -> Result<(), LifecycleError> {
        self.wish(id, Wish::Destroy).await.map(drop)
    }

    async fn wish(&self, id: WorkspaceId, wish: Wish) -> Result<WorkspaceRow, LifecycleError> {
        if self.context.is_closing() {
            return Err(LifecycleError::ShuttingDown);
        }
        let entry = self.entry(id)?;
        let (reply, outcome) = oneshot::channel();
        entry.ask(Request::Wish(wish, reply)).await.map_err(|_| LifecycleError::NotFound { id })?;
        outcome.await.unwrap_or(Err(LifecycleError::NotFound { id }))
    }

    /// Begins a tool call. The workspace counts as used until the answer is dropped.
    pub async fn tool(&self, id: WorkspaceId) -> Result<ToolCall, ToolError> {
        if self.context.is_closing() {
            return Err(ToolError::ShuttingDown);
        }
        let entry = self.context.registry.get(id).ok_or(ToolError::NotFound { id })?;
        ToolCall::begin(entry)
    }

    /// What is known of every provider.
    pub async fn providers(&self) -> Result<Vec<ProviderView>, LifecycleError> {
        let statuses = self.context.orchestrator.statuses().await;
        Ok(statuses
            .into_iter()
            .map(|status| ProviderView { active_workspaces: self.active_on(status.kind), status })
            .collect())
    }

    fn active_on(&self, kind: ProviderKind) -> u32 {
        let entries = self.context.registry.all();
        let active = entries.iter().filter(|entry| {
            let row = entry.view.borrow();
            row.provider == kind && row.status.counts_as_active() && row.status != WorkspaceStatus::Creating
        });
        u32::try_from(active.count()).unwrap_or(u32::MAX)
    }

    /// Whether the database answers.
    pub async fn health(&self) -> Result<(), LifecycleError> {
        if self.context.is_closing() {
            return Err(LifecycleError::ShuttingDown);
        }
        Ok(self.context.store.health().await?)
    }

    fn entry(&self, id: WorkspaceId) -> Result<Arc<Entry>, LifecycleError> {
        self.context.registry.get(id).ok_or(LifecycleError::NotFound { id })
    }
}
