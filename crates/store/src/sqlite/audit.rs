//! `kb_tool_audit`.

use std::num::NonZeroU32;

use time::OffsetDateTime;

use super::SqliteStore;
use super::failure::because;
use super::statement::{DIALECT, query};
use crate::columns::audit;
use crate::{AuditCursor, AuditEntry, AuditFilter, AuditFinish, AuditPage, Operation, StoreError};

/// One statement for any number of entries, given as JSON. An answer can be lost on its way, and the
/// entry be there: then it is written once more, perhaps with its end.
pub(super) const APPEND: &str = "
    INSERT INTO kb_tool_audit AS entry
        (id, at, tool, workspace_id, session_id, caller, request_id, duration_ms, outcome, error_code, summary)
    SELECT made.value ->> 0, made.value ->> 1, made.value ->> 2, made.value ->> 3, made.value ->> 4,
        made.value ->> 5, made.value ->> 6, made.value ->> 7, made.value ->> 8, made.value ->> 9,
        made.value -> 10
    FROM json_each(?) AS made
    WHERE true
    ON CONFLICT (id) DO UPDATE
    SET duration_ms = excluded.duration_ms, outcome = excluded.outcome,
        error_code = excluded.error_code, summary = excluded.summary, workspace_id = excluded.workspace_id
    WHERE entry.outcome = 'running'";

/// One statement for any number of ends, given as JSON. The plus keeps SQLite from going
/// through everything that is running instead of through the key.
pub(super) const FINISH: &str = "
    UPDATE kb_tool_audit AS entry
    SET duration_ms = finish.value ->> 1,
        outcome = finish.value ->> 2,
        error_code = finish.value ->> 3,
        summary = coalesce(nullif(finish.value -> 4, 'null'), entry.summary),
        workspace_id = coalesce(finish.value ->> 5, entry.workspace_id)
    FROM json_each(?) AS finish
    WHERE entry.id = finish.value ->> 0 AND +entry.outcome = 'running'";

impl SqliteStore {
    pub(super) async fn append_audit_rows(&self, entries: &[AuditEntry]) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        let operation = Operation::AppendAudit { count: entries.len() };
        let mut transaction = self.begin(operation).await?;
        for chunk in entries.chunks(audit::CHUNK) {
            let insert = sqlx::query(APPEND).bind(audit::appended(chunk));
            insert.execute(&mut *transaction).await.map_err(because(operation))?;
        }
        transaction.commit().await.map_err(because(operation))
    }

    pub(super) async fn finish_audit_rows(&self, finishes: &[AuditFinish]) -> Result<u64, StoreError> {
        if finishes.is_empty() {
            return Ok(0);
        }
        let done = sqlx::query(FINISH)
            .bind(audit::finishes(finishes))
            .execute(&self.writer)
            .await
            .map_err(because(Operation::FinishAudit { count: finishes.len() }))?;
        Ok(done.rows_affected())
    }

    pub(super) async fn list_audit_rows(
        &self,
        filter: &AuditFilter,
        after: Option<AuditCursor>,
        limit: NonZeroU32,
    ) -> Result<AuditPage, StoreError> {
        let rows = query(audit::list(&DIALECT, filter, after, limit))
            .fetch_all(&self.readers)
            .await
            .map_err(because(Operation::ListAudit))?;
        audit::page(&DIALECT, &rows, limit)
    }

    pub(super) async fn prune_audit_rows(
        &self,
        before: OffsetDateTime,
        max_rows: NonZeroU32,
    ) -> Result<u64, StoreError> {
        let prune = query(audit::prune(&DIALECT, before, max_rows));
        let done = prune.execute(&self.writer).await.map_err(because(Operation::PruneAudit))?;
        Ok(done.rows_affected())
    }

    pub(super) async fn interrupt_running_audit_rows(&self) -> Result<u64, StoreError> {
        let interrupt = query(audit::interrupt(&DIALECT));
        let done =
            interrupt.execute(&self.writer).await.map_err(because(Operation::InterruptRunningAudit))?;
        Ok(done.rows_affected())
    }
}
