//! `kb_agent_workspaces`.

use std::future::ready;
use std::num::NonZeroU32;

use emergent_types::{WorkspaceId, WorkspaceStatus};
use futures::TryStreamExt;
use serde_json::{Value, json};
use sqlx::SqliteExecutor;

use super::failure::because;
use super::statement::{DIALECT, query, workspace};
use super::{SqliteStore, keys};
use crate::clock::to_millis;
use crate::columns::keys::ToMake;
use crate::columns::mcp_servers;
use crate::columns::workspaces::{self, decode};
use crate::violation;
use crate::workspace::NewOrMember;
use crate::workspace_update::{last_touches, resuming};
use crate::{
    ClaimResumeError, IdempotencyKey, InsertWorkspaceError, Operation, StoreError, Touch,
    UpdateWorkspaceError, WorkspaceCursor, WorkspaceFilter, WorkspacePage, WorkspaceRow, WorkspaceUpdate,
};

/// The index is named because SQLite, which knows nothing of how many rows there are, would
/// take another that finds every workspace there ever was. The condition is spelled exactly
/// like the index's own.
pub(super) const COUNT_ACTIVE: &str = "
    SELECT count(*) FROM kb_agent_workspaces INDEXED BY idx_workspaces_active
    WHERE container_type = 'agent_workspace' AND status IN ('creating', 'ready', 'stopping', 'resuming')
      AND warm_pool IS NULL";

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
        key: Option<&IdempotencyKey>,
        what: NewOrMember<'_>,
    ) -> Result<(), InsertWorkspaceError> {
        let operation = what.operation(row.id);
        // Sealed before the write lock is taken.
        let insert = workspaces::insert(&DIALECT, row, &self.vault)?;
        let register = match what {
            NewOrMember::Server(server) => Some(mcp_servers::insert(&DIALECT, server, &self.vault)?),
            NewOrMember::New | NewOrMember::Member => None,
        };
        let mut transaction = self.begin(operation).await?;
        if let Some(key) = key {
            let make = ToMake::workspace(&DIALECT, key, row);
            if let Some(known) = keys::take(&mut transaction, &make).await? {
                return Err(known.into());
            }
        }
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
        let found = self.fetch(&mut *transaction, id, operation).await?;
        let row = resuming(found.ok_or(ClaimResumeError::NotFound { id })?)?;
        if row.takes_a_place() {
            let active = count_active(&mut *transaction, operation).await?;
            if active >= max_active {
                return Err(ClaimResumeError::LimitReached { id, active, max: max_active });
            }
        }
        let update = workspaces::update(&DIALECT, &row)?;
        query(update).execute(&mut *transaction).await.map_err(because(operation))?;
        transaction.commit().await.map_err(because(operation))?;
        Ok(row)
    }

    /// That it is to be destroyed is written on a full disk too: else nobody could make room.
    pub(super) async fn update_workspace_row(
        &self,
        id: WorkspaceId,
        change: WorkspaceUpdate,
    ) -> Result<WorkspaceRow, UpdateWorkspaceError> {
        let makes_room = change.status == Some(WorkspaceStatus::Destroying);
        match self.try_to_update(id, change.clone()).await {
            Err(UpdateWorkspaceError::Store(StoreError::DiskFull { .. }))
                if makes_room && self.reserve.give() =>
            {
                self.try_to_update(id, change).await
            }
            updated => updated,
        }
    }

    async fn try_to_update(
        &self,
        id: WorkspaceId,
        change: WorkspaceUpdate,
    ) -> Result<WorkspaceRow, UpdateWorkspaceError> {
        let operation = Operation::UpdateWorkspace(id);
        let mut transaction = self.begin(operation).await?;
        let found = self.fetch(&mut *transaction, id, operation).await?;
        let row = change.judged(found.ok_or(UpdateWorkspaceError::NotFound { id })?)?;
        let update = workspaces::update(&DIALECT, &row)?;
        query(update).execute(&mut *transaction).await.map_err(because(operation))?;
        transaction.commit().await.map_err(because(operation))?;
        Ok(row)
    }

    pub(super) async fn touch_workspace_rows(&self, touches: &[Touch]) -> Result<u64, StoreError> {
        if touches.is_empty() {
            return Ok(0);
        }
        let last = last_touches(touches);
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
        let rows = query(workspaces::list(&DIALECT, filter, after, limit))
            .fetch_all(&self.readers)
            .await
            .map_err(because(Operation::ListWorkspaces))?;
        workspaces::page(&DIALECT, &rows, limit, &self.vault)
    }

    pub(super) async fn all_workspace_rows(&self) -> Result<Vec<WorkspaceRow>, StoreError> {
        // One by one: the driver's rows are several times as large as ours.
        query(workspaces::all(&DIALECT))
            .fetch(&self.readers)
            .map_err(because(Operation::WorkspacesForReconcile))
            .and_then(|row| ready(decode(&workspace(&row), &self.vault)))
            .try_collect()
            .await
    }

    pub(super) async fn delete_workspace_row(&self, id: WorkspaceId) -> Result<bool, StoreError> {
        let operation = Operation::DeleteWorkspace(id);
        let delete = || self.write(operation, workspaces::delete(&DIALECT, id));
        let deleted = match delete().await {
            Err(StoreError::DiskFull { .. }) if self.reserve.give() => delete().await,
            deleted => deleted,
        }?;
        // What it had on the disk is gone by now.
        self.reserve.take();
        Ok(deleted > 0)
    }

    pub(super) async fn count_active_workspaces(&self) -> Result<u32, StoreError> {
        count_active(&self.readers, Operation::CountActive).await
    }

    pub(super) async fn fetch(
        &self,
        executor: impl SqliteExecutor<'_>,
        id: WorkspaceId,
        operation: Operation,
    ) -> Result<Option<WorkspaceRow>, StoreError> {
        let get = query(workspaces::get(&DIALECT, id));
        let row = get.fetch_optional(executor).await.map_err(because(operation))?;
        row.map(|row| decode(&workspace(&row), &self.vault)).transpose()
    }
}

async fn count_active(executor: impl SqliteExecutor<'_>, operation: Operation) -> Result<u32, StoreError> {
    sqlx::query_scalar(COUNT_ACTIVE).fetch_one(executor).await.map_err(because(operation))
}
