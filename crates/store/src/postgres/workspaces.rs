//! `kb.agent_workspaces`.

use std::future::ready;
use std::num::NonZeroU32;
use std::time::Duration;

use emergent_types::WorkspaceId;
use futures::TryStreamExt;
use sqlx::{PgExecutor, PgPool, Row};
use uuid::Uuid;

use super::failure::because;
use super::lock::{PLACES, lock_in_transaction};
use super::statement::{DIALECT, query, workspace};
use super::{CALL_LIMIT, LONG_CALL_LIMIT, PostgresStore, commit, keys, within};
use crate::clock::to_stored_precision;
use crate::columns::keys::ToMake;
use crate::columns::mcp_servers;
use crate::columns::workspaces::{self, decode};
use crate::columns::{self, Statement};
use crate::violation;
use crate::workspace::NewOrMember;
use crate::workspace_update::{last_touches, resuming};
use crate::{
    ClaimResumeError, IdempotencyKey, InsertWorkspaceError, Operation, StoreError, Touch,
    UpdateWorkspaceError, WorkspaceCursor, WorkspaceFilter, WorkspacePage, WorkspaceRow, WorkspaceUpdate,
};

/// The condition is spelled exactly like that of its index.
pub(super) const COUNT_ACTIVE: &str = "
    SELECT count(*) FROM kb.agent_workspaces
    WHERE container_type = 'agent_workspace' AND status IN ('creating', 'ready', 'stopping', 'resuming')
      AND warm_pool IS NULL";

/// One statement for any number of touches.
pub(super) const TOUCH: &str = "
    UPDATE kb.agent_workspaces AS workspace
    SET last_used_at = greatest(workspace.last_used_at, touch.last_used_at),
        expires_at = CASE workspace.lifecycle WHEN 'ephemeral' THEN touch.expires_at END
    FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[]) AS touch (id, last_used_at, expires_at)
    WHERE workspace.id = touch.id";

/// How long to wait before another attempt to remove what nobody was told of.
const UNDO_INTERVAL: Duration = Duration::from_millis(500);

impl PostgresStore {
    pub(super) async fn insert_workspace_row(
        &self,
        row: &WorkspaceRow,
        max_active: u32,
        key: Option<&IdempotencyKey>,
        what: NewOrMember<'_>,
    ) -> Result<(), InsertWorkspaceError> {
        let operation = what.operation(row.id);
        let insert = workspaces::insert(&DIALECT, row, &self.vault)?;
        let register = match what {
            NewOrMember::Server(server) => Some(mcp_servers::insert(&DIALECT, server, &self.vault)?),
            NewOrMember::New | NewOrMember::Member => None,
        };
        let transaction = within(CALL_LIMIT, operation, async {
            let mut transaction = self.begin(operation).await?;
            if let Some(key) = key {
                let make = ToMake::workspace(&DIALECT, key, row);
                if let Some(known) = keys::take(&mut transaction, &make).await? {
                    return Err(known.into());
                }
            }
            // Also where no place is taken: whoever removes an insert that nobody was told of
            // waits here for one that is still on its way.
            lock_in_transaction(&mut transaction, PLACES).await.map_err(because(operation))?;
            if row.takes_a_place() {
                let active = count_active(&mut *transaction, operation).await?;
                if active >= max_active {
                    return Err(InsertWorkspaceError::LimitReached { id: row.id, active, max: max_active });
                }
            }
            if what == NewOrMember::Member {
                let delete = query(workspaces::delete_member(&DIALECT, row.id));
                let deleted = delete.execute(&mut *transaction).await.map_err(because(operation))?;
                if deleted.rows_affected() == 0 {
                    return Err(InsertWorkspaceError::NotInPool { id: row.id });
                }
            }
            query(insert).execute(&mut *transaction).await.map_err(|error| {
                violation::of_workspace(row, &error).unwrap_or_else(|| because(operation)(error).into())
            })?;
            if let (NewOrMember::Server(server), Some(register)) = (what, register) {
                query(register).execute(&mut *transaction).await.map_err(|error| {
                    violation::of_server(server, &error).unwrap_or_else(|| because(operation)(error).into())
                })?;
            }
            Ok(transaction)
        })
        .await?;
        let committed = commit(transaction, operation).await;
        if let Err(StoreError::Unavailable { .. }) = committed {
            // The row may be there. Whoever asked is told that it is not, and it would hold a
            // place for ever. What was a member is removed by its owner too, who cannot know.
            tokio::spawn(undo_insert(self.pool.clone(), row.id));
        }
        Ok(committed?)
    }

    pub(super) async fn claim_workspace_resume(
        &self,
        id: WorkspaceId,
        max_active: u32,
    ) -> Result<WorkspaceRow, ClaimResumeError> {
        let operation = Operation::ClaimResume(id);
        let (transaction, row) = within(CALL_LIMIT, operation, async {
            let mut transaction = self.begin(operation).await?;
            let found = self.fetch_for_update(&mut *transaction, id, operation).await?;
            let row = resuming(found.ok_or(ClaimResumeError::NotFound { id })?)?;
            if row.takes_a_place() {
                lock_in_transaction(&mut transaction, PLACES).await.map_err(because(operation))?;
                let active = count_active(&mut *transaction, operation).await?;
                if active >= max_active {
                    return Err(ClaimResumeError::LimitReached { id, active, max: max_active });
                }
            }
            let update = workspaces::update(&DIALECT, &row)?;
            query(update).execute(&mut *transaction).await.map_err(because(operation))?;
            Ok((transaction, row))
        })
        .await?;
        commit(transaction, operation).await?;
        Ok(row)
    }

    pub(super) async fn update_workspace_row(
        &self,
        id: WorkspaceId,
        change: WorkspaceUpdate,
    ) -> Result<WorkspaceRow, UpdateWorkspaceError> {
        let operation = Operation::UpdateWorkspace(id);
        let (transaction, row) = within(CALL_LIMIT, operation, async {
            let mut transaction = self.begin(operation).await?;
            let found = self.fetch_for_update(&mut *transaction, id, operation).await?;
            let row = change.judged(found.ok_or(UpdateWorkspaceError::NotFound { id })?)?;
            let update = workspaces::update(&DIALECT, &row)?;
            query(update).execute(&mut *transaction).await.map_err(because(operation))?;
            Ok::<_, UpdateWorkspaceError>((transaction, row))
        })
        .await?;
        commit(transaction, operation).await?;
        Ok(row)
    }

    pub(super) async fn touch_workspace_rows(&self, touches: &[Touch]) -> Result<u64, StoreError> {
        if touches.is_empty() {
            return Ok(0);
        }
        let last = last_touches(touches);
        let ids: Vec<Uuid> = last.keys().map(WorkspaceId::as_uuid).collect();
        let used: Vec<_> = last.values().map(|touch| to_stored_precision(touch.last_used_at)).collect();
        let expiry: Vec<_> = last.values().map(|touch| touch.expires_at.map(to_stored_precision)).collect();
        let operation = Operation::TouchWorkspaces { count: last.len() };
        self.write_query(operation, sqlx::query(TOUCH).bind(ids).bind(used).bind(expiry)).await
    }

    pub(super) async fn get_workspace_row(
        &self,
        id: WorkspaceId,
    ) -> Result<Option<WorkspaceRow>, StoreError> {
        let operation = Operation::GetWorkspace(id);
        let get = workspaces::get(&DIALECT, id);
        within(CALL_LIMIT, operation, self.fetch(&self.pool, get, operation)).await
    }

    pub(super) async fn list_workspace_rows(
        &self,
        filter: WorkspaceFilter,
        after: Option<WorkspaceCursor>,
        limit: NonZeroU32,
    ) -> Result<WorkspacePage, StoreError> {
        let list = workspaces::list(&DIALECT, filter, after, limit);
        let rows = self.read(Operation::ListWorkspaces, list).await?;
        workspaces::page(&DIALECT, &rows, limit, &self.vault)
    }

    pub(super) async fn all_workspace_rows(&self) -> Result<Vec<WorkspaceRow>, StoreError> {
        let operation = Operation::WorkspacesForReconcile;
        // One by one: the driver's rows are several times as large as ours.
        within(LONG_CALL_LIMIT, operation, async {
            query(workspaces::all(&DIALECT))
                .fetch(&self.pool)
                .map_err(because(operation))
                .and_then(|row| ready(decode(&workspace(&row), &self.vault)))
                .try_collect()
                .await
        })
        .await
    }

    pub(super) async fn delete_workspace_row(&self, id: WorkspaceId) -> Result<bool, StoreError> {
        let deleted = self.write(Operation::DeleteWorkspace(id), workspaces::delete(&DIALECT, id)).await?;
        Ok(deleted > 0)
    }

    pub(super) async fn count_active_workspaces(&self) -> Result<u32, StoreError> {
        let operation = Operation::CountActive;
        within(CALL_LIMIT, operation, count_active(&self.pool, operation)).await
    }

    pub(super) async fn fetch_for_update(
        &self,
        executor: impl PgExecutor<'_>,
        id: WorkspaceId,
        operation: Operation,
    ) -> Result<Option<WorkspaceRow>, StoreError> {
        self.fetch(executor, workspaces::get(&DIALECT, id).for_update(), operation).await
    }

    async fn fetch(
        &self,
        executor: impl PgExecutor<'_>,
        get: Statement,
        operation: Operation,
    ) -> Result<Option<WorkspaceRow>, StoreError> {
        let row = query(get).fetch_optional(executor).await.map_err(because(operation))?;
        row.map(|row| decode(&workspace(&row), &self.vault)).transpose()
    }
}

async fn count_active(executor: impl PgExecutor<'_>, operation: Operation) -> Result<u32, StoreError> {
    let row = sqlx::query(COUNT_ACTIVE).fetch_one(executor).await.map_err(because(operation))?;
    let count: i64 = row.try_get(0).map_err(because(operation))?;
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Removes a row whose insert was answered with an error although it may have been done.
async fn undo_insert(pool: PgPool, id: WorkspaceId) {
    loop {
        match try_undo(&pool, id).await {
            Ok(removed) => {
                tracing::info!(workspace_id = %id, removed, "looked for workspace {id}, whose insert was not answered");
                return;
            }
            Err(sqlx::Error::PoolClosed) => return,
            Err(_) => tokio::time::sleep(UNDO_INTERVAL).await,
        }
    }
}

async fn try_undo(pool: &PgPool, id: WorkspaceId) -> Result<bool, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    lock_in_transaction(&mut transaction, PLACES).await?;
    query(columns::keys::release(&DIALECT, id)).execute(&mut *transaction).await?;
    let deleted = query(workspaces::delete(&DIALECT, id)).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(deleted.rows_affected() > 0)
}
