//! Copies of workspaces' disks.
//!
//! The row of a snapshot is written before the copy is made and removed after it is gone, as with
//! workspaces; what a kill leaves has a row that is not `ready`, or is an orphan.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};

use emergent_provider::ObservedSnapshot;
use emergent_store::{
    IdempotencyKey, SnapshotCursor, SnapshotFilter, SnapshotPage, SnapshotRow, SnapshotStatus, TokenId,
};
use emergent_types::{ProviderKind, SnapshotId, WorkspaceId};
use tokio::sync::oneshot;

use crate::actor::{Aside, Request};
use crate::events;
use crate::service::Context;
use crate::{Handle, LifecycleError, Place};

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
    /// The key of the request was used before: for the owner of the workspace to tell, and nobody else.
    #[error("the Idempotency-Key belongs to snapshot {id}")]
    KeyKnown {
        /// The snapshot that was taken under it.
        id: SnapshotId,
        /// Whether it was the same request.
        same_request: bool,
    },
    /// The key of the request was used before, and this is not that request again.
    #[error("{}", key_conflict(*.id, *.is_gone))]
    KeyConflict {
        /// The snapshot that was taken under it.
        id: SnapshotId,
        /// The request was the same, but the snapshot is not there any more.
        is_gone: bool,
    },
    /// The workspace could not.
    #[error(transparent)]
    Workspace(#[from] LifecycleError),
}

fn key_conflict(id: SnapshotId, is_gone: bool) -> String {
    if is_gone {
        format!("snapshot {id} was taken under this Idempotency-Key and is gone")
    } else {
        format!("this Idempotency-Key was used for another request, which took snapshot {id}")
    }
}

/// What came of a snapshot.
#[derive(Debug, Clone)]
pub struct TakenSnapshot {
    /// The snapshot.
    pub row: SnapshotRow,
    /// It had been taken before, by the same request.
    pub replayed: bool,
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
        self.snapshot_once(id, name, owner, None).await.map(|taken| taken.row)
    }

    /// The same under a key: a request that was sent before takes no second one.
    pub async fn snapshot_once(
        &self,
        id: WorkspaceId,
        name: Option<String>,
        owner: Option<TokenId>,
        key: Option<IdempotencyKey>,
    ) -> Result<TakenSnapshot, SnapshotError> {
        let row = self.snapshot_row(id, name, owner).await?;
        match self.take_snapshot(id, row, Keep::ForOthers, key).await {
            Ok(row) => Ok(TakenSnapshot { row, replayed: false }),
            // Taken one after the other by the same owner, so the first one is finished.
            Err(SnapshotError::KeyKnown { id, same_request: true }) => {
                let gone = |_| SnapshotError::KeyConflict { id, is_gone: true };
                Ok(TakenSnapshot { row: self.get_snapshot(id).await.map_err(gone)?, replayed: true })
            }
            Err(SnapshotError::KeyKnown { id, same_request: false }) => {
                Err(SnapshotError::KeyConflict { id, is_gone: false })
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn snapshot_row(
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
            repositories: workspace.repositories,
            owner_id: owner,
            created_at: emergent_store::now(),
        })
    }

    pub(crate) async fn take_snapshot(
        &self,
        id: WorkspaceId,
        row: SnapshotRow,
        keep: Keep,
        key: Option<IdempotencyKey>,
    ) -> Result<SnapshotRow, SnapshotError> {
        let (reply, outcome) = oneshot::channel();
        self.ask_aside(id, Aside::Snapshot { row: Box::new(row), keep, key, reply }).await?;
        outcome.await.unwrap_or(Err(LifecycleError::NotFound { id }.into()))
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
        self.context.reach(Place::DeletionBeforeTheIntent).await;
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
pub(crate) async fn remove(context: &Context, row: &SnapshotRow) -> Result<(), String> {
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
