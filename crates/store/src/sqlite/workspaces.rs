//! `kb_agent_workspaces`.

use std::collections::BTreeMap;
use std::future::ready;
use std::num::NonZeroU32;

use emergent_types::{WorkspaceId, WorkspaceStatus};
use futures::TryStreamExt;
use serde_json::{Value, json};
use sqlx::{QueryBuilder, Sqlite, SqliteExecutor};
use time::OffsetDateTime;

use super::SqliteStore;
use super::failure::{because, is_dangling_reference, is_duplicate};
use super::workspace_record::{decode, decode_id, insert, update};
use crate::clock::to_millis;
use crate::{
    ClaimResumeError, InsertWorkspaceError, Operation, StoreError, Touch, UpdateWorkspaceError,
    WorkspaceCursor, WorkspaceFilter, WorkspacePage, WorkspaceRow, WorkspaceUpdate,
};

/// The index is named because SQLite, which knows nothing of how many rows there are, would
/// take another that finds every workspace there ever was. The condition is spelled exactly
/// like the index's own.
pub(super) const COUNT_ACTIVE: &str = "
    SELECT count(*) FROM kb_agent_workspaces INDEXED BY idx_workspaces_active
    WHERE container_type = 'agent_workspace' AND status IN ('creating', 'ready', 'stopping', 'resuming')";

pub(super) const EXPIRED: &str = "
    SELECT id FROM kb_agent_workspaces INDEXED BY idx_workspaces_expiry
    WHERE lifecycle = 'ephemeral' AND expires_at <= ? AND status IN ('ready', 'stopped', 'failed')
    ORDER BY expires_at
    LIMIT ?";

pub(super) const GET: &str = "SELECT * FROM kb_agent_workspaces WHERE id = ?";

const ALL: &str = "SELECT * FROM kb_agent_workspaces ORDER BY id";

/// One statement for any number of touches, given as JSON: `[[id, last_used_at, expires_at], …]`.
pub(super) const TOUCH: &str = "
    UPDATE kb_agent_workspaces AS workspace
    SET last_used_at = max(workspace.last_used_at, touch.value ->> 1),
        expires_at = CASE workspace.lifecycle WHEN 'ephemeral' THEN touch.value ->> 2 END
    FROM json_each(?) AS touch
    WHERE workspace.id = touch.value ->> 0";

impl SqliteStore {
    pub(super) async fn insert_workspace_row(
        &self,
        row: &WorkspaceRow,
        max_active: u32,
    ) -> Result<(), InsertWorkspaceError> {
        let operation = Operation::InsertWorkspace(row.id);
        // Sealed before the write lock is taken.
        let insert = insert(row, &self.vault)?;
        let mut transaction = self.begin(operation).await?;
        if row.takes_a_place() {
            let active = count_active(&mut *transaction, operation).await?;
            if active >= max_active {
                return Err(InsertWorkspaceError::LimitReached { id: row.id, active, max: max_active });
            }
        }
        insert.execute(&mut *transaction).await.map_err(|error| {
            if is_duplicate(&error) {
                InsertWorkspaceError::AlreadyExists { id: row.id }
            } else if is_dangling_reference(&error) {
                InsertWorkspaceError::UnknownOwner { id: row.id, owner: row.owner_id }
            } else {
                because(operation)(error).into()
            }
        })?;
        transaction.commit().await.map_err(because(operation))?;
        Ok(())
    }

    pub(super) async fn claim_workspace_resume(
        &self,
        id: WorkspaceId,
        max_active: u32,
    ) -> Result<WorkspaceRow, ClaimResumeError> {
        let operation = Operation::ClaimResume(id);
        let mut transaction = self.begin(operation).await?;
        let Some(mut row) = self.fetch(&mut *transaction, id, operation).await? else {
            return Err(ClaimResumeError::NotFound { id });
        };
        if row.status != WorkspaceStatus::Stopped {
            return Err(ClaimResumeError::WrongStatus { id, status: row.status });
        }
        row.status = WorkspaceStatus::Resuming;
        if row.takes_a_place() {
            let active = count_active(&mut *transaction, operation).await?;
            if active >= max_active {
                return Err(ClaimResumeError::LimitReached { id, active, max: max_active });
            }
        }
        update(&row)?.execute(&mut *transaction).await.map_err(because(operation))?;
        transaction.commit().await.map_err(because(operation))?;
        Ok(row)
    }

    pub(super) async fn update_workspace_row(
        &self,
        id: WorkspaceId,
        change: WorkspaceUpdate,
    ) -> Result<WorkspaceRow, UpdateWorkspaceError> {
        let operation = Operation::UpdateWorkspace(id);
        let mut transaction = self.begin(operation).await?;
        let Some(mut row) = self.fetch(&mut *transaction, id, operation).await? else {
            return Err(UpdateWorkspaceError::NotFound { id });
        };
        let from = row.status;
        if let Some(expected) = change.expected_status
            && expected != from
        {
            return Err(UpdateWorkspaceError::WrongStatus { id, expected, actual: from });
        }
        let had_a_place = row.takes_a_place();
        change.apply_to(&mut row);
        if row.takes_a_place() && !had_a_place {
            return Err(UpdateWorkspaceError::PlaceNotClaimed { id, from, to: row.status });
        }
        update(&row)?.execute(&mut *transaction).await.map_err(because(operation))?;
        transaction.commit().await.map_err(because(operation))?;
        Ok(row)
    }

    pub(super) async fn touch_workspace_rows(&self, touches: &[Touch]) -> Result<u64, StoreError> {
        if touches.is_empty() {
            return Ok(0);
        }
        // SQLite would apply any one of two touches of the same row; the last one is meant.
        let last: BTreeMap<WorkspaceId, &Touch> = touches.iter().map(|touch| (touch.id, touch)).collect();
        let touches: Vec<Value> = last
            .values()
            .map(|touch| json!([touch.id, to_millis(touch.last_used_at), touch.expires_at.map(to_millis)]))
            .collect();
        let done = sqlx::query(TOUCH)
            .bind(Value::from(touches).to_string())
            .execute(&self.writer)
            .await
            .map_err(because(Operation::TouchWorkspaces { count: last.len() }))?;
        Ok(done.rows_affected())
    }

    pub(super) async fn get_workspace_row(
        &self,
        id: WorkspaceId,
    ) -> Result<Option<WorkspaceRow>, StoreError> {
        self.fetch(&self.readers, id, Operation::GetWorkspace(id)).await
    }

    pub(super) async fn list_workspace_rows(
        &self,
        filter: WorkspaceFilter,
        after: Option<WorkspaceCursor>,
        limit: NonZeroU32,
    ) -> Result<WorkspacePage, StoreError> {
        let limit = limit.get() as usize;
        // One more than asked for tells whether there is another page.
        let rows = list_query(filter, after, limit + 1)
            .build()
            .fetch_all(&self.readers)
            .await
            .map_err(because(Operation::ListWorkspaces))?;
        let items: Vec<_> =
            rows.iter().take(limit).map(|row| decode(row, &self.vault)).collect::<Result<_, _>>()?;
        let next = match items.last() {
            Some(last) if rows.len() > limit => Some(WorkspaceCursor::after(last.id)),
            _ => None,
        };
        Ok(WorkspacePage { items, next })
    }

    pub(super) async fn all_workspace_rows(&self) -> Result<Vec<WorkspaceRow>, StoreError> {
        // One by one: the driver's rows are several times as large as ours.
        sqlx::query(ALL)
            .fetch(&self.readers)
            .map_err(because(Operation::WorkspacesForReconcile))
            .and_then(|row| ready(decode(&row, &self.vault)))
            .try_collect()
            .await
    }

    pub(super) async fn expired_workspaces(
        &self,
        now: OffsetDateTime,
        limit: NonZeroU32,
    ) -> Result<Vec<WorkspaceId>, StoreError> {
        let rows = sqlx::query(EXPIRED)
            .bind(to_millis(now))
            .bind(limit.get())
            .fetch_all(&self.readers)
            .await
            .map_err(because(Operation::Expired))?;
        rows.iter().map(decode_id).collect()
    }

    pub(super) async fn delete_workspace_row(&self, id: WorkspaceId) -> Result<bool, StoreError> {
        let done = sqlx::query("DELETE FROM kb_agent_workspaces WHERE id = ?")
            .bind(id.to_string())
            .execute(&self.writer)
            .await
            .map_err(because(Operation::DeleteWorkspace(id)))?;
        Ok(done.rows_affected() > 0)
    }

    pub(super) async fn count_active_workspaces(&self) -> Result<u32, StoreError> {
        count_active(&self.readers, Operation::CountActive).await
    }

    async fn fetch(
        &self,
        executor: impl SqliteExecutor<'_>,
        id: WorkspaceId,
        operation: Operation,
    ) -> Result<Option<WorkspaceRow>, StoreError> {
        let row = sqlx::query(GET)
            .bind(id.to_string())
            .fetch_optional(executor)
            .await
            .map_err(because(operation))?;
        row.map(|row| decode(&row, &self.vault)).transpose()
    }
}

async fn count_active(executor: impl SqliteExecutor<'_>, operation: Operation) -> Result<u32, StoreError> {
    sqlx::query_scalar(COUNT_ACTIVE).fetch_one(executor).await.map_err(because(operation))
}

pub(super) fn list_query(
    filter: WorkspaceFilter,
    after: Option<WorkspaceCursor>,
    limit: usize,
) -> QueryBuilder<Sqlite> {
    // Only the conditions that are asked for, so that each can use its index.
    let mut query = QueryBuilder::new("SELECT * FROM kb_agent_workspaces WHERE true");
    if let Some(status) = filter.status {
        query.push(" AND status = ").push_bind(status.as_str());
    }
    if let Some(container_type) = filter.container_type {
        query.push(" AND container_type = ").push_bind(container_type.as_str());
    }
    if let Some(provider) = filter.provider {
        query.push(" AND provider = ").push_bind(provider.as_str());
    }
    if let Some(owner) = filter.owner {
        query.push(" AND owner_id = ").push_bind(owner.to_string());
    }
    if let Some(after) = after {
        query.push(" AND id < ").push_bind(after.id().to_string());
    }
    query.push(" ORDER BY id DESC LIMIT ").push_bind(i64::try_from(limit).unwrap_or(i64::MAX));
    query
}
