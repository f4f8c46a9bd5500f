//! What the API works with.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use emergent_orchestrator::ProviderStatus;
use emergent_store::{
    IdempotencyKey, InsertWorkspaceError, TokenId, WorkspaceCursor, WorkspaceFilter, WorkspacePage,
    WorkspaceRow,
};
use emergent_types::{NetworkMode, ProviderChoice, ProviderKind, StopMode, WorkspaceId, WorkspaceStatus};
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

/// How often a create that waits for an earlier one of the same key tries again.
const MAX_JOINED_FAILURES: u32 = 20;

/// How long to wait for the owner of a row that was just written, or for the end of a create
/// that failed.
const OWNER_DELAY: Duration = Duration::from_millis(50);

/// What came of a create.
#[derive(Debug, Clone)]
pub struct CreatedWorkspace {
    /// The workspace.
    pub row: WorkspaceRow,
    /// It had been made before, by the same request.
    pub replayed: bool,
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
        self.create_once(new, wait, None).await.map(|created| created.row)
    }

    /// The same under a key: a request that was sent before makes no second workspace. One
    /// that comes while the first is under way shares its outcome.
    pub async fn create_once(
        &self,
        new: NewWorkspace,
        wait: bool,
        key: Option<IdempotencyKey>,
    ) -> Result<CreatedWorkspace, CreateError> {
        let handle = self.clone();
        // On a task of its own: whoever goes away in the very moment in which the row is written
        // must not leave a row without an owner.
        let creating =
            async move { handle.create_to_the_end(&new, wait, key.as_ref()).await }.in_current_span();
        let lost = |error: tokio::task::JoinError| CreateError::Rejected { reason: error.to_string() };
        tokio::spawn(creating).await.map_err(lost)?
    }

    async fn create_to_the_end(
        &self,
        new: &NewWorkspace,
        wait: bool,
        key: Option<&IdempotencyKey>,
    ) -> Result<CreatedWorkspace, CreateError> {
        if self.context.is_closing() {
            return Err(CreateError::ShuttingDown);
        }
        let (network, fallback) = self.network_for(new).await;
        let named = new.named(&self.context.options);
        let mut row = new.to_row(&self.context.options, network, !wait);
        row.warnings.extend(fallback);
        let mut failed_before = 0;
        loop {
            let max = self.context.options.max_concurrent;
            match self.context.store.insert_workspace(&row, max, key).await {
                Ok(()) => break,
                Err(InsertWorkspaceError::KeyKnown { workspace_id: id, same_request: false }) => {
                    return Err(CreateError::KeyConflict { id, is_gone: false });
                }
                Err(InsertWorkspaceError::KeyKnown { workspace_id: id, same_request: true }) => {
                    if let Some(row) = self.first_outcome(id, wait).await? {
                        return Ok(CreatedWorkspace { row, replayed: true });
                    }
                    // The first one failed and gave its key back, or it is gone for good.
                    failed_before += 1;
                    if failed_before > MAX_JOINED_FAILURES {
                        return Err(CreateError::KeyConflict { id, is_gone: true });
                    }
                }
                Err(InsertWorkspaceError::LimitReached { active, max, .. }) => {
                    return Err(CreateError::LimitReached { active, max });
                }
                Err(InsertWorkspaceError::Store(error)) => return Err(CreateError::Store(error)),
                Err(error) => return Err(CreateError::Rejected { reason: error.to_string() }),
            }
        }
        if !wait {
            let row = Actor::spawn(&self.context, row, Phase::Creating { reply: None, named }).row();
            return Ok(CreatedWorkspace { row, replayed: false });
        }
        let id = row.id;
        let (reply, outcome) = oneshot::channel();
        Actor::spawn(&self.context, row, Phase::Creating { reply: Some(reply), named });
        let row = outcome.await.unwrap_or(Err(CreateError::Destroyed { id }))?;
        Ok(CreatedWorkspace { row, replayed: false })
    }

    /// What came of a create that was asked for before; `None` where it is not there any more.
    async fn first_outcome(&self, id: WorkspaceId, wait: bool) -> Result<Option<WorkspaceRow>, CreateError> {
        let Some(entry) = self.context.registry.get(id) else {
            // Its row is written a moment before it has an owner.
            tokio::time::sleep(OWNER_DELAY).await;
            return Ok(None);
        };
        if wait {
            let mut view = entry.view.clone();
            if view.wait_for(|row| row.status != WorkspaceStatus::Creating).await.is_err() {
                return Ok(None);
            }
        }
        let row = entry.row();
        // One that failed before whoever waits is being removed.
        if row.status == WorkspaceStatus::Destroying {
            tokio::time::sleep(OWNER_DELAY).await;
            return Ok(None);
        }
        Ok(Some(row))
    }

    /// The network of a new workspace. One that the request names is kept and refused later
    /// where it cannot be enforced; a default that no provider in question can enforce gives
    /// way to isolation, never the other way round, and the warning says why.
    async fn network_for(&self, new: &NewWorkspace) -> (NetworkMode, Option<String>) {
        if let Some(named) = new.network {
            return (named, None);
        }
        let default = self.context.options.default_network;
        let mut reasons = Vec::new();
        for provider in self.context.orchestrator.providers() {
            let in_question = match new.provider {
                ProviderChoice::Auto => true,
                ProviderChoice::Explicit(kind) => provider.kind() == kind,
            };
            if !in_question {
                continue;
            }
            if provider.capabilities().await.networks.contains(&default) {
                return (default, None);
            }
            let why = provider.why_no_network(default).await;
            reasons.extend(why.map(|why| format!(" ({}: {why})", provider.kind())));
        }
        let warning = (default != NetworkMode::Isolated).then(|| {
            format!(
                "the default network mode \"{default}\" cannot be enforced here{}; the workspace is \"{}\"",
                reasons.concat(),
                NetworkMode::Isolated
            )
        });
        (NetworkMode::Isolated, warning)
    }

    /// One workspace.
    pub async fn get(&self, id: WorkspaceId) -> Result<WorkspaceRow, LifecycleError> {
        self.entry(id).map(|entry| entry.row())
    }

    /// Whose a workspace is; `None` where there is no such workspace.
    pub fn owner(&self, id: WorkspaceId) -> Option<Option<TokenId>> {
        self.context.registry.get(id).map(|entry| entry.view.borrow().owner_id)
    }

    /// The state of every workspace.
    pub fn statuses(&self) -> Vec<WorkspaceStatus> {
        self.context.registry.with_all(|entries| entries.map(|entry| entry.status()).collect())
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

    /// Whether a stop of this workspace can keep what runs.
    pub async fn can_suspend(&self, id: WorkspaceId) -> Result<bool, LifecycleError> {
        let kind = self.entry(id)?.view.borrow().provider;
        match self.context.orchestrator.provider(kind) {
            Some(provider) => Ok(provider.capabilities().await.suspend),
            None => Ok(false),
        }
    }

    /// Ends all processes and keeps the disk, or lets them stand still where they are. Succeeds at
    /// once where it is stopped already, either way.
    pub async fn stop(&self, id: WorkspaceId, mode: StopMode) -> Result<WorkspaceRow, LifecycleError> {
        self.wish(id, Wish::Stop(mode)).await
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
        let is_active = |entry: &&Arc<Entry>| {
            let row = entry.view.borrow();
            row.provider == kind && row.status.counts_as_active() && row.status != WorkspaceStatus::Creating
        };
        let active = self.context.registry.with_all(|entries| entries.filter(is_active).count());
        u32::try_from(active).unwrap_or(u32::MAX)
    }

    /// Whether the server is going down: nothing new is begun.
    pub fn is_closing(&self) -> bool {
        self.context.is_closing()
    }

    fn entry(&self, id: WorkspaceId) -> Result<Arc<Entry>, LifecycleError> {
        self.context.registry.get(id).ok_or(LifecycleError::NotFound { id })
    }
}
