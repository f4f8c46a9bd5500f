//! Workspaces that have the files of another one.

use emergent_store::{IdempotencyKey, KnownWorkspace, TokenId, WorkspaceRow};
use emergent_types::WorkspaceId;
use tracing::Instrument;

use crate::snapshots::{self, Keep};
use crate::{CreateError, Handle, NewWorkspace, SnapshotError};

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

/// What came of a fork.
#[derive(Debug, Clone)]
pub struct Forked {
    /// All of them.
    pub rows: Vec<WorkspaceRow>,
    /// They had been made before, by the same request.
    pub replayed: bool,
}

impl Handle {
    /// Makes copies of a workspace: its disk as it is at one moment, and all that was asked for when it was
    /// made. All of them or none. Under a key that was used before, nothing is made.
    pub async fn fork(
        &self,
        id: WorkspaceId,
        count: usize,
        owner: Option<TokenId>,
        key: Option<IdempotencyKey>,
    ) -> Result<Forked, ForkError> {
        let handle = self.clone();
        // On a task of its own: what is begun is finished or undone, whoever waits for it.
        let forking = async move { handle.fork_once(id, count, owner, key).await }.in_current_span();
        let lost = |panic: tokio::task::JoinError| CreateError::Rejected { reason: panic.to_string() };
        tokio::spawn(forking).await.unwrap_or_else(|panic| Err(lost(panic).into()))
    }

    async fn fork_once(
        &self,
        id: WorkspaceId,
        count: usize,
        owner: Option<TokenId>,
        key: Option<IdempotencyKey>,
    ) -> Result<Forked, ForkError> {
        let _turn = match &key {
            Some(key) => Some(self.context.forks.take((key.owner, key.key.clone())).await),
            None => None,
        };
        let keys: Vec<_> =
            (0..count).map(|number| key.as_ref().map(|key| key_of_fork(key, number))).collect();
        if key.is_some()
            && let Some(rows) = self.forked_before(&keys).await?
        {
            return Ok(Forked { rows, replayed: true });
        }
        self.fork_to_the_end(id, owner, keys).await.map(|rows| Forked { rows, replayed: false })
    }

    /// What the same request has made before. What it has begun and not finished was promised to nobody, and
    /// goes: a copy that is made now would be of another moment.
    async fn forked_before(
        &self,
        keys: &[Option<IdempotencyKey>],
    ) -> Result<Option<Vec<WorkspaceRow>>, ForkError> {
        let mut known = Vec::new();
        for key in keys.iter().flatten() {
            let found = self.context.store.find_idempotency_key(key).await.map_err(CreateError::from)?;
            match found {
                Some(KnownWorkspace { id, same_request: false }) => {
                    return Err(CreateError::KeyConflict { id, is_gone: false }.into());
                }
                found => known.extend(found.map(|known| known.id)),
            }
        }
        if known.len() < keys.len() {
            for id in known {
                self.undo(id).await;
            }
            return Ok(None);
        }
        let mut rows = Vec::new();
        for id in known {
            let there = self.get(id).await.map_err(|_| CreateError::KeyConflict { id, is_gone: true });
            rows.push(there?);
        }
        Ok(Some(rows))
    }

    async fn fork_to_the_end(
        &self,
        id: WorkspaceId,
        owner: Option<TokenId>,
        keys: Vec<Option<IdempotencyKey>>,
    ) -> Result<Vec<WorkspaceRow>, ForkError> {
        let origin = self.get(id).await.map_err(SnapshotError::from)?;
        let row = self.snapshot_row(id, None, owner).await.map_err(SnapshotError::from)?;
        let _holding = self.context.snapshots.begin(row.id);
        // Never said to be whole: after a kill it is not there for anybody.
        let snapshot = self.take_snapshot(id, row, Keep::ForMaker, None).await?;
        let new = NewWorkspace { owner, snapshot: Some(snapshot.id), ..NewWorkspace::like(&origin) };
        let creates = keys.into_iter().map(|key| self.create_once(new.clone(), true, key));
        let (mut made, mut failure) = (Vec::new(), None);
        for created in futures::future::join_all(creates).await {
            match created {
                Ok(created) => made.push(created.row),
                Err(error) => failure = Some(error),
            }
        }
        if let Err(reason) = snapshots::remove(&self.context, &snapshot).await {
            tracing::warn!(snapshot = %snapshot.id, "the copy that forks were made from is not removed yet: {reason}");
        }
        let Some(failure) = failure else { return Ok(made) };
        for row in made {
            self.undo(row.id).await;
        }
        Err(failure.into())
    }

    /// Removes a fork that nobody gets, and lets its request be made again.
    async fn undo(&self, id: WorkspaceId) {
        if let Err(error) = self.context.store.release_idempotency_key(id).await {
            tracing::warn!(workspace = %id, %error, "the key of a fork that nobody gets stays taken: {error}");
        }
        if self.get(id).await.is_ok()
            && let Err(error) = self.destroy(id).await
        {
            tracing::warn!(workspace = %id, %error, "a fork that nobody gets is not removed yet: {error}");
        }
    }
}

/// Each fork has a key of its own. No client can send one with a line's end in it.
fn key_of_fork(key: &IdempotencyKey, number: usize) -> IdempotencyKey {
    IdempotencyKey { key: format!("{}\nfork {number}", key.key), ..key.clone() }
}
