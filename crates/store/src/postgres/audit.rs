//! `kb.tool_audit`.

use std::num::NonZeroU32;

use time::OffsetDateTime;

use super::failure::because;
use super::statement::DIALECT;
use super::{CALL_LIMIT, PostgresStore, commit, within};
use crate::columns::audit;
use crate::{AuditCursor, AuditEntry, AuditFilter, AuditFinish, AuditPage, Operation, StoreError};

/// One statement for any number of entries, given as JSON. An answer can be lost on its way, and the
/// entry be there: then it is written once more, perhaps with its end.
pub(super) const APPEND: &str = "
    INSERT INTO kb.tool_audit AS entry
        (id, at, tool, workspace_id, session_id, caller, request_id, duration_ms, outcome, error_code, summary)
    SELECT (made ->> 0)::uuid, timestamptz 'epoch' + (made ->> 1)::bigint * interval '1 millisecond',
        made ->> 2, (made ->> 3)::uuid, (made ->> 4)::uuid, (made ->> 5)::uuid,
        made ->> 6, (made ->> 7)::bigint, made ->> 8, made ->> 9, made -> 10
    FROM jsonb_array_elements($1::jsonb) AS made
    ON CONFLICT (id) DO UPDATE
    SET duration_ms = excluded.duration_ms, outcome = excluded.outcome,
        error_code = excluded.error_code, summary = excluded.summary, workspace_id = excluded.workspace_id
    WHERE entry.outcome = 'running'";

/// One statement for any number of ends, given as JSON.
pub(super) const FINISH: &str = "
    UPDATE kb.tool_audit AS entry
    SET duration_ms = (finish ->> 1)::bigint,
        outcome = finish ->> 2,
        error_code = finish ->> 3,
        summary = coalesce(nullif(finish -> 4, 'null'), entry.summary),
        workspace_id = coalesce((finish ->> 5)::uuid, entry.workspace_id)
    FROM jsonb_array_elements($1::jsonb) AS finish
    WHERE entry.id = (finish ->> 0)::uuid AND entry.outcome = 'running'";

impl PostgresStore {
    pub(super) async fn append_audit_rows(&self, entries: &[AuditEntry]) -> Result<(), StoreError> {
        if entries.is_empty() {
            return Ok(());
        }
        let operation = Operation::AppendAudit { count: entries.len() };
        let transaction = within(CALL_LIMIT, operation, async {
            let mut transaction = self.begin(operation).await?;
            for chunk in entries.chunks(audit::CHUNK) {
                let insert = sqlx::query(APPEND).bind(audit::appended(chunk));
                insert.execute(&mut *transaction).await.map_err(because(operation))?;
            }
            Ok::<_, StoreError>(transaction)
        })
        .await?;
        commit(transaction, operation).await
    }

    pub(super) async fn finish_audit_rows(&self, finishes: &[AuditFinish]) -> Result<u64, StoreError> {
        if finishes.is_empty() {
            return Ok(0);
        }
        let operation = Operation::FinishAudit { count: finishes.len() };
        self.write_query(operation, sqlx::query(FINISH).bind(audit::finishes(finishes))).await
    }

    pub(super) async fn list_audit_rows(
        &self,
        filter: &AuditFilter,
        after: Option<AuditCursor>,
        limit: NonZeroU32,
    ) -> Result<AuditPage, StoreError> {
        let rows = self.read(Operation::ListAudit, audit::list(&DIALECT, filter, after, limit)).await?;
        audit::page(&DIALECT, &rows, limit)
    }

    pub(super) async fn prune_audit_rows(
        &self,
        before: OffsetDateTime,
        max_rows: NonZeroU32,
    ) -> Result<u64, StoreError> {
        self.write(Operation::PruneAudit, audit::prune(&DIALECT, before, max_rows)).await
    }

    pub(super) async fn interrupt_running_audit_rows(&self) -> Result<u64, StoreError> {
        self.write(Operation::InterruptRunningAudit, audit::interrupt(&DIALECT)).await
    }
}
