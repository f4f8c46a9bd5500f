//! What the API works with.

use std::num::NonZeroU32;
use std::sync::Arc;

use emergent_orchestrator::ProviderStatus;
use emergent_provider::{ProviderError, VolumeName};
use emergent_store::{Store, TokenId, WorkspaceCursor, WorkspaceFilter, WorkspacePage, WorkspaceRow};
use emergent_types::{ContainerType, ProviderKind, StopMode, WorkspaceId, WorkspaceStatus};
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

use crate::actor::Request;
use crate::admission::Wish;
use crate::pool::Stock;
use crate::service::{Context, Entry};
use crate::tools::ToolCall;
use crate::{Event, LifecycleError, PoolView, PoolsView, ToolError};

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
    pub(crate) context: Arc<Context>,
}

impl Handle {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context }
    }

    /// One workspace.
    pub async fn get(&self, id: WorkspaceId) -> Result<WorkspaceRow, LifecycleError> {
        self.entry(id).map(|entry| entry.row())
    }

    /// How far its sandbox is, while it is being made and that takes long.
    pub fn progress(&self, id: WorkspaceId) -> Option<String> {
        self.entry(id).ok().and_then(|entry| entry.presence.progress.latest())
    }

    /// Whose a workspace is; `None` where there is no such workspace.
    pub fn owner(&self, id: WorkspaceId) -> Option<Option<TokenId>> {
        self.entry(id).ok().map(|entry| entry.view.borrow().owner_id)
    }

    /// Whether it is an agent's or an MCP server's; `None` where there is no such workspace.
    pub fn container_type(&self, id: WorkspaceId) -> Option<ContainerType> {
        self.entry(id).ok().map(|entry| entry.view.borrow().container_type)
    }

    /// The row as it changes; closed when the workspace is gone.
    pub fn watch(&self, id: WorkspaceId) -> Result<watch::Receiver<WorkspaceRow>, LifecycleError> {
        self.entry(id).map(|entry| entry.view.clone())
    }

    /// Where what is registered is kept, for who hosts MCP servers in workspaces.
    pub fn store(&self) -> Arc<dyn Store> {
        self.context.store.clone()
    }

    /// Tells everybody who follows what happens.
    pub fn publish(&self, event: Event) {
        self.context.events.publish(event);
    }

    /// Removes a volume with everything in it, wherever it is. One that is not there is success.
    pub async fn remove_volume(
        &self,
        id: WorkspaceId,
        kind: ProviderKind,
        name: &VolumeName,
    ) -> Result<(), LifecycleError> {
        let Some(provider) = self.context.orchestrator.provider(kind) else { return Ok(()) };
        let failed = |error: ProviderError| LifecycleError::Provider { id, reason: error.to_string() };
        provider.remove_volume(name).await.map_err(failed)
    }

    /// Who works in a workspace.
    pub fn session(&self, id: WorkspaceId) -> Option<Uuid> {
        self.entry(id).ok().and_then(|entry| entry.view.borrow().agent_session_id)
    }

    /// The state of every workspace.
    pub fn statuses(&self) -> Vec<WorkspaceStatus> {
        let somebodys = |entry: &&Arc<Entry>| !entry.is_in_pool();
        self.context
            .registry
            .with_all(|entries| entries.filter(somebodys).map(|entry| entry.status()).collect())
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

    /// Makes the sandbox of an MCP server anew, where the one it had has failed. What was in it is lost; volumes stay.
    /// A workspace of somebody's is never made anew: it would look as if its files had never been.
    pub async fn remake(&self, id: WorkspaceId) -> Result<WorkspaceRow, LifecycleError> {
        match self.container_type(id) {
            Some(ContainerType::McpServer) => self.wish(id, Wish::Remake).await,
            Some(_) => {
                let status = self.get(id).await?.status;
                Err(LifecycleError::WrongState { id, status })
            }
            None => Err(LifecycleError::NotFound { id }),
        }
    }

    /// Removes a workspace with everything that belongs to it. A second call while the first
    /// is under way shares its outcome; afterwards it is `NotFound`.
    pub async fn destroy(&self, id: WorkspaceId) -> Result<(), LifecycleError> {
        self.wish(id, Wish::Destroy).await.map(drop)
    }

    /// The provider of a workspace, where it is none of this server's.
    pub fn missing_provider(&self, id: WorkspaceId) -> Result<Option<ProviderKind>, LifecycleError> {
        let row = self.entry(id)?.row();
        let is_missing =
            row.isolation.is_some() && self.context.orchestrator.provider(row.provider).is_none();
        Ok(is_missing.then_some(row.provider))
    }

    /// The same, also where nobody can tell that nothing is left because its provider is none of this server's:
    /// then it is forgotten. A server that has the provider again finds an orphan, and removes that.
    pub async fn destroy_forced(&self, id: WorkspaceId) -> Result<(), LifecycleError> {
        if self.missing_provider(id)?.is_some() {
            self.entry(id)?.presence.give_up();
        }
        self.destroy(id).await
    }

    /// Whoever destroys a workspace and wants a copy of it first is alone with that until what is returned is
    /// dropped: of several at once the first takes the copy, and the others find nothing to copy any more.
    pub async fn turn_to_end(&self, id: WorkspaceId) -> tokio::sync::OwnedMutexGuard<()> {
        self.context.endings.take(id).await
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
        let entry = self.entry(id).map_err(|_| ToolError::NotFound { id })?;
        let call = ToolCall::begin(entry.clone())?;
        call.wake().await?;
        entry.presence.contact.seek(!self.context.options.services.is_empty()).await;
        Ok(call)
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
            row.provider == kind
                && row.status.counts_as_active()
                && row.status != WorkspaceStatus::Creating
                && row.warm_pool.is_none()
        };
        let active = self.context.registry.with_all(|entries| entries.filter(is_active).count());
        u32::try_from(active).unwrap_or(u32::MAX)
    }

    /// Whether the server is going down: nothing new is begun.
    pub fn is_closing(&self) -> bool {
        self.context.is_closing()
    }

    /// What is known of the pools.
    pub fn pools(&self) -> PoolsView {
        let pools = &self.context.pools;
        let being_made = |stock: &Stock| {
            let is_made = |entry: &&Arc<Entry>| stock.has(entry, WorkspaceStatus::Creating);
            let count = self.context.registry.with_all(|entries| entries.filter(is_made).count());
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        let resting = |stock: &Stock| {
            let rests = |entry: &&Arc<Entry>| {
                stock.has(entry, WorkspaceStatus::Ready) && entry.presence.resting.is_so()
            };
            let count = self.context.registry.with_all(|entries| entries.filter(rests).count());
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        let view = |stock: &Stock| PoolView {
            name: stock.spec.name.clone(),
            size: stock.size(),
            ready: stock.offered_count(),
            resting: resting(stock),
            creating: being_made(stock),
            trouble: stock.trouble_reason(),
        };
        PoolsView {
            pools: pools.stocks().iter().map(view).collect(),
            hits: pools.tally.hits(),
            misses: pools.tally.misses(),
            claim_ms: pools.tally.claim_ms(),
        }
    }

    /// Changes the size of the default pool, for this server and the next.
    pub async fn set_pool_size(&self, size: u32) -> Result<PoolsView, LifecycleError> {
        if self.context.is_closing() {
            return Err(LifecycleError::ShuttingDown);
        }
        self.context.pools.set_size(&self.context, size).await?;
        Ok(self.pools())
    }

    /// Somebody's workspace: what waits in a pool cannot be found.
    pub(crate) fn entry(&self, id: WorkspaceId) -> Result<Arc<Entry>, LifecycleError> {
        let found = self.context.registry.get(id).filter(|entry| !entry.is_in_pool());
        found.ok_or(LifecycleError::NotFound { id })
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }
}
