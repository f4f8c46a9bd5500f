//! What is done to a workspace while it stays as it is: copies of its disk, sessions that come and go.

use emergent_provider::ProviderError;
use emergent_store::{
    AttachError, IdempotencyKey, InsertSnapshotError, Repository, RepositoryState, SnapshotRow,
    SnapshotStatus, WorkspaceRow, WorkspaceUpdate,
};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::Actor;
use crate::events;
use crate::snapshots::Keep;
use crate::{LifecycleError, Place, SnapshotError};

/// What is asked for.
pub(crate) enum Aside {
    /// A copy of its disk.
    Snapshot {
        row: Box<SnapshotRow>,
        keep: Keep,
        key: Option<IdempotencyKey>,
        reply: oneshot::Sender<Result<SnapshotRow, SnapshotError>>,
    },
    /// A repository belongs to it from now on.
    Repository { repository: Repository, reply: oneshot::Sender<Result<WorkspaceRow, LifecycleError>> },
    /// A session comes.
    Attach { session: Uuid, reply: oneshot::Sender<Result<WorkspaceRow, LifecycleError>> },
    /// The session goes: a certain one, or whoever is there.
    Detach { session: Option<Uuid>, reply: oneshot::Sender<Result<WorkspaceRow, LifecycleError>> },
}

impl Aside {
    /// Not in this state.
    pub(super) fn refuse(self, error: LifecycleError) {
        match self {
            Self::Snapshot { reply, .. } => drop(reply.send(Err(SnapshotError::Workspace(error)))),
            Self::Repository { reply, .. } | Self::Attach { reply, .. } | Self::Detach { reply, .. } => {
                drop(reply.send(Err(error)));
            }
        }
    }
}

impl Actor {
    /// Does it. Whoever wants something else of this workspace waits.
    pub(super) async fn aside(&mut self, aside: Aside) {
        if self.row().warm_pool.is_some() {
            return aside.refuse(LifecycleError::NotFound { id: self.id });
        }
        match aside {
            Aside::Snapshot { row, keep, key, reply } => {
                drop(reply.send(self.take_snapshot(*row, keep, key.as_ref()).await));
            }
            Aside::Repository { repository, reply } => {
                drop(reply.send(self.add_repository(repository).await));
            }
            Aside::Attach { session, reply } => drop(reply.send(self.attach(session).await)),
            Aside::Detach { session, reply } => drop(reply.send(self.detach(session).await)),
        }
    }

    /// The row first, then the copy, and only then is it said to be whole.
    async fn take_snapshot(
        &mut self,
        row: SnapshotRow,
        keep: Keep,
        key: Option<&IdempotencyKey>,
    ) -> Result<SnapshotRow, SnapshotError> {
        let id = row.id;
        let provider = self.provider().map_err(SnapshotError::Workspace)?;
        if !provider.capabilities().await.snapshots {
            return Err(SnapshotError::Unsupported { provider: provider.kind() });
        }
        // What it has written and not yet handed over is only to be had of what goes on.
        self.go_on().await;
        let store = self.context.store.clone();
        let _making = self.context.snapshots.begin(id);
        self.context.reach(Place::SnapshotBeforeTheRow).await;
        match store.insert_snapshot(&row, self.context.options.max_snapshots, key).await {
            Ok(()) => {}
            Err(InsertSnapshotError::QuotaReached { count, max, .. }) => {
                return Err(SnapshotError::QuotaReached { count, max });
            }
            Err(InsertSnapshotError::KeyKnown { snapshot_id: id, same_request }) => {
                return Err(SnapshotError::KeyKnown { id, same_request });
            }
            Err(InsertSnapshotError::Store(error)) => {
                return Err(SnapshotError::Workspace(error.into()));
            }
        }
        self.context.reach(Place::SnapshotRowWritten).await;
        let taken = provider.snapshot(id, &self.spec()).await.map_err(|error| self.not_taken(error));
        self.context.reach(Place::SnapshotCopied).await;
        let taken = match taken {
            Ok(_) if keep == Keep::ForMaker => Ok(true),
            Ok(_) => store.set_snapshot_status(id, SnapshotStatus::Ready).await.map_err(Into::into),
            Err(error) => Err(error),
        };
        if let Err(error) = taken {
            // What cannot be removed now is removed by the next comparison with what exists.
            if provider.delete_snapshot(id).await.is_ok() {
                let _ = store.delete_snapshot(id).await;
            }
            return Err(SnapshotError::Workspace(error));
        }
        self.context.reach(Place::SnapshotWritten).await;
        tracing::info!(workspace = %self.id, snapshot = %id, "snapshot {id} of workspace {}", self.id);
        self.presence.activity.note();
        if keep == Keep::ForOthers {
            self.tell(vec![events::of_snapshot("snapshot.created", &row)]);
        }
        let status = if keep == Keep::ForMaker { row.status } else { SnapshotStatus::Ready };
        Ok(SnapshotRow { status, ..row })
    }

    fn not_taken(&self, error: ProviderError) -> LifecycleError {
        LifecycleError::Provider { id: self.id, reason: error.to_string() }
    }

    /// In the place of what was known of it before, and of what never came to be where it is now. What was there
    /// and may have been moved stays the workspace's.
    async fn add_repository(&mut self, repository: Repository) -> Result<WorkspaceRow, LifecycleError> {
        let mut repositories = self.row().repositories;
        let never_came = |known: &Repository| matches!(known.state, RepositoryState::Failed { .. });
        repositories.retain(|known| {
            known.path != repository.path || (known.url != repository.url && !never_came(known))
        });
        repositories.push(repository);
        let repositories = Some(repositories);
        self.write(WorkspaceUpdate { repositories, ..WorkspaceUpdate::default() }).await?;
        Ok(self.row())
    }

    async fn attach(&mut self, session: Uuid) -> Result<WorkspaceRow, LifecycleError> {
        let attached = self.context.store.attach(self.id, session, emergent_store::now()).await;
        let row = attached.map_err(|error| match error {
            AttachError::NotFound { id } => LifecycleError::NotFound { id },
            AttachError::Held { id, holder } => LifecycleError::Attached { id, holder },
            AttachError::Store(error) => error.into(),
        })?;
        self.show(row.clone());
        self.presence.activity.note();
        Ok(row)
    }

    async fn detach(&mut self, session: Option<Uuid>) -> Result<WorkspaceRow, LifecycleError> {
        let detached = self.context.store.detach(self.id, session, emergent_store::now()).await?;
        let row = detached.ok_or(LifecycleError::NotFound { id: self.id })?;
        self.show(row.clone());
        Ok(row)
    }
}
