//! Copies of workspaces' disks, and workspaces made from them.
//!
//! The row of a snapshot is written before the copy is made and removed after it is gone, as with
//! workspaces; what a kill leaves has a row that is not `ready`, or is an orphan.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};

use emergent_provider::ObservedSnapshot;
use emergent_store::{
    SnapshotCursor, SnapshotFilter, SnapshotPage, SnapshotRow, SnapshotStatus, TokenId, WorkspaceRow,
};
use emergent_types::{ProviderKind, SnapshotId, WorkspaceId};
use tokio::sync::oneshot;

use crate::actor::{Aside, Request};
use crate::events;
use crate::service::Context;
use crate::{CreateError, Handle, LifecycleError, NewWorkspace, Place};

/// Why there is no snapshot.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SnapshotError {
    /// There is no such snapshot, or it is not whole.
    #[error("snapshot {id} does not exist")]
    NotFound {
        /// Which.
        id: SnapshotId,
    },
    /// Its provider makes none.
    #[error("provider {provider} makes no snapshots on this host")]
    Unsupported {
        /// Which.
        provider: ProviderKind,
    },
    /// There are as many as there may be.
    #[error("there are {count} of {max} snapshots: delete one that is not needed")]
    QuotaReached {
        /// How many there are.
        count: u32,
        /// How many there may be.
        max: u32,
    },
    /// The provider could not remove it; that is tried again.
    #[error("snapshot {id} is not removed yet: {reason}")]
    NotRemoved {
        /// Which.
        id: SnapshotId,
        /// What the provider said.
        reason: String,
    },
    /// The workspace could not.
    #[error(transparent)]
    Workspace(#[from] LifecycleError),
}

/// A workspace was not forked. Nothing is left.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// Its disk could not be copied.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A workspace could not be made from the copy.
    #[error(transparent)]
    Create(#[from] CreateError),
}

/// Who may use a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Whoever it belongs to, for as long as they like.
    ForOthers,
    /// Who has it made, now.
    ForMaker,
}

/// Snapshots that are being made now, or are used by whoever makes them and nobody else.
#[derive(Default)]
pub(crate) struct InProgress(Mutex<HashMap<SnapshotId, usize>>);

/// One of them, until this is dropped.
pub(crate) struct Making<'a> {
    all: &'a InProgress,
    id: SnapshotId,
}

impl InProgress {
    pub(crate) fn begin(&self, id: SnapshotId) -> Making<'_> {
        *self.held().entry(id).or_default() += 1;
        Making { all: self, id }
    }

    pub(crate) fn has(&self, id: SnapshotId) -> bool {
        self.held().contains_key(&id)
    }

    fn held(&self) -> MutexGuard<'_, HashMap<SnapshotId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let mut held = self.all.held();
        if let Some(count) = held.get_mut(&self.id) {
            *count -= 1;
        }
        held.retain(|_, count| *count > 0);
    }
}

impl Handle {
    /// Copies a workspace's disk as it is at one moment. The workspace goes on, or stays stopped.
    pub async fn snapshot(
        &self,
        id: WorkspaceId,
        name: Option<String>,
        owner: Option<TokenId>,
    ) -> Result<SnapshotRow, SnapshotError> {
        let row = self.snapshot_row(id, name, owner).await?;
        self.take_snapshot(id, row, Keep::ForOthers).await
    }

    async fn snapshot_row(
        &self,
        id: WorkspaceId,
        name: Option<String>,
        owner: Option<TokenId>,
    ) -> Result<SnapshotRow, LifecycleError> {
        let workspace = self.get(id).await?;
        Ok(SnapshotRow {
            id: SnapshotId::generate(),
            workspace_id: id,
            provider: workspace.provider,
            status: SnapshotStatus::Creating,
            name,
            isolation: workspace.isolation.unwrap_or(workspace.min_isolation),
            network: workspace.network,
            resource_limits: workspace.resource_limits,
            base_image: workspace.base_image,
            repository_url: workspace.repository_url,
            branch: workspace.branch,
            owner_id: owner,
            created_at: emergent_store::now(),
        })
    }

    async fn take_snapshot(
        &self,
        id: WorkspaceId,
        row: SnapshotRow,
        keep: Keep,
    ) -> Result<SnapshotRow, SnapshotError> {
        let (reply, outcome) = oneshot::channel();
        self.ask_aside(id, Aside::Snapshot { row: Box::new(row), keep, reply }).await?;
        outcome.await.unwrap_or(Err(LifecycleError::NotFound { id }.into()))
    }

    /// Makes copies of a workspace: its disk as it is at one moment, and all that was asked for when it was
    /// made. All of them or none.
    pub async fn fork(
        &self,
        id: WorkspaceId,
        count: usize,
        owner: Option<TokenId>,
    ) -> Result<Vec<WorkspaceRow>, ForkError> {
        let handle = self.clone();
        // On a task of its own: what is begun is finished or undone, whoever waits for it.
        let forking = tokio::spawn(async move { handle.fork_to_the_end(id, count, owner).await });
        let lost = |panic: tokio::task::JoinError| CreateError::Rejected { reason: panic.to_string() };
        forking.await.unwrap_or_else(|panic| Err(lost(panic).into()))
    }

    async fn fork_to_the_end(
        &self,
        id: WorkspaceId,
        count: usize,
        owner: Option<TokenId>,
    ) -> Result<Vec<WorkspaceRow>, ForkError> {
        let origin = self.get(id).await.map_err(SnapshotError::from)?;
        let row = self.snapshot_row(id, None, owner).await.map_err(SnapshotError::from)?;
        let _holding = self.context.snapshots.begin(row.id);
        // Never said to be whole: after a kill it is not there for anybody.
        let snapshot = self.take_snapshot(id, row, Keep::ForMaker).await?;
        let new = NewWorkspace { owner, snapshot: Some(snapshot.id), ..NewWorkspace::like(&origin) };
        let creates = (0..count).map(|_| self.create(new.clone(), true));
        let (mut made, mut failure) = (Vec::new(), None);
        for created in futures::future::join_all(creates).await {
            match created {
                Ok(row) => made.push(row),
                Err(error) => failure = Some(error),
            }
        }
        if let Err(reason) = remove(&self.context, &snapshot).await {
            tracing::warn!(snapshot = %snapshot.id, "the copy that forks were made from is not removed yet: {reason}");
        }
        let Some(failure) = failure else { return Ok(made) };
        for row in made {
            if let Err(error) = self.destroy(row.id).await {
                tracing::warn!(workspace = %row.id, %error, "a fork that nobody gets is not removed yet: {error}");
            }
        }
        Err(failure.into())
    }

    /// One snapshot that is whole.
    pub async fn get_snapshot(&self, id: SnapshotId) -> Result<SnapshotRow, SnapshotError> {
        let row = self.context.store.get_snapshot(id).await.map_err(LifecycleError::from)?;
        row.filter(|row| row.status == SnapshotStatus::Ready).ok_or(SnapshotError::NotFound { id })
    }

    /// A page of snapshots, newest first, those that are being made or removed too.
    pub async fn list_snapshots(
        &self,
        filter: SnapshotFilter,
        after: Option<SnapshotCursor>,
        limit: NonZeroU32,
    ) -> Result<SnapshotPage, LifecycleError> {
        Ok(self.context.store.list_snapshots(filter, after, limit).await?)
    }

    /// Removes a snapshot. Workspaces that were made from it are not touched.
    pub async fn delete_snapshot(&self, id: SnapshotId) -> Result<(), SnapshotError> {
        let row = self.get_snapshot(id).await?;
        let store = &self.context.store;
        store.set_snapshot_status(id, SnapshotStatus::Deleting).await.map_err(LifecycleError::from)?;
        let handle = self.clone();
        // On a task of its own: it is not whole any more, whoever waits for that.
        let removing = tokio::spawn(async move {
            remove(&handle.context, &row).await?;
            handle.context.events.publish(events::of_snapshot("snapshot.deleted", &row));
            Ok(())
        });
        removing.await.unwrap_or_else(|panic| Err(panic.to_string())).map_err(|reason| {
            tracing::warn!(snapshot = %id, "snapshot {id} is not removed yet: {reason}");
            SnapshotError::NotRemoved { id, reason }
        })
    }

    pub(crate) async fn ask_aside(&self, id: WorkspaceId, aside: Aside) -> Result<(), LifecycleError> {
        if self.context.is_closing() {
            return Err(LifecycleError::ShuttingDown);
        }
        let entry = self.entry(id)?;
        entry.ask(Request::Aside(aside)).await.map_err(|_| LifecycleError::NotFound { id })
    }
}

/// Removes the copy, then the row.
async fn remove(context: &Context, row: &SnapshotRow) -> Result<(), String> {
    let provider = context.orchestrator.provider(row.provider);
    let provider = provider.ok_or_else(|| format!("provider {} is not available here", row.provider))?;
    context.reach(Place::DeletionIntentWritten).await;
    provider.delete_snapshot(row.id).await.map_err(|error| error.to_string())?;
    context.reach(Place::DeletionCopyRemoved).await;
    context.store.delete_snapshot(row.id).await.map(drop).map_err(|error| error.to_string())
}

/// Compares the rows of snapshots with what exists, both ways. Rows are read first: what is written
/// meanwhile is not looked for in a list that is older.
pub(crate) async fn reconcile(context: &Context) {
    let rows = match context.store.snapshots_for_reconcile().await {
        Ok(rows) => rows,
        Err(error) => return tracing::warn!(%error, "cannot compare snapshots with what exists: {error}"),
    };
    for provider in context.orchestrator.providers() {
        let kind = provider.kind();
        let listed = match provider.list_snapshots().await {
            Ok(listed) => listed,
            Err(error) => {
                tracing::warn!(provider = %kind, %error, "cannot compare snapshots with what exists: {error}");
                continue;
            }
        };
        let whole =
            |id| listed.iter().any(|seen| matches!(seen, ObservedSnapshot::Whole(one) if one.id == id));
        for row in rows.iter().filter(|row| row.provider == kind && !context.snapshots.has(row.id)) {
            let why = match row.status {
                SnapshotStatus::Ready if whole(row.id) => continue,
                SnapshotStatus::Ready => "its copy is gone",
                // Whoever waited has seen the connection break.
                SnapshotStatus::Creating => "it was not finished",
                SnapshotStatus::Deleting => "it was to be removed",
            };
            // The row was read before the provider was asked, which may take long: somebody may have finished
            // it meanwhile.
            let is_as_read = matches!(context.store.get_snapshot(row.id).await,
                Ok(Some(now)) if now.status == row.status);
            if !is_as_read {
                continue;
            }
            match remove(context, row).await {
                Ok(()) => tracing::warn!(snapshot = %row.id, "removed snapshot {}: {why}", row.id),
                Err(reason) => {
                    tracing::error!(snapshot = %row.id, "snapshot {} is not removed yet: {reason}", row.id);
                }
            }
        }
        for id in listed.iter().map(ObservedSnapshot::id) {
            let is_orphan = !rows.iter().any(|row| row.id == id)
                && !context.snapshots.has(id)
                && matches!(context.store.get_snapshot(id).await, Ok(None));
            if is_orphan && let Err(error) = provider.delete_snapshot(id).await {
                tracing::error!(snapshot = %id, provider = %kind, %error, "orphaned snapshot {id} stays: {error}");
            } else if is_orphan {
                tracing::warn!(snapshot = %id, provider = %kind, "removed orphaned snapshot {id}");
            }
        }
    }
}
