//! An audit entry's row.

use std::num::NonZeroU32;

use serde_json::{Map, Value as Json};
use time::OffsetDateTime;

use super::{Columns, Dialect, Record, Statement, Value};
use crate::{
    AuditCursor, AuditEntry, AuditFilter, AuditFinish, AuditOutcome, AuditPage, Page, StoreError, clock,
};

/// How many entries one statement writes: what is given at once is held in memory twice.
pub(crate) const CHUNK: usize = 500;

/// The newest entries.
pub(crate) fn list(
    dialect: &'static Dialect,
    filter: &AuditFilter,
    after: Option<AuditCursor>,
    limit: NonZeroU32,
) -> Statement {
    let mut statement = Statement::new(dialect, format!("SELECT * FROM {} WHERE true", dialect.audit))
        .bind_some(" AND workspace_id = ", filter.workspace_id.map(|id| Value::id(id.as_uuid())))
        .bind_some(" AND caller = ", filter.caller.map(|id| Value::id(id.as_uuid())))
        .bind_some(" AND tool = ", filter.tool.as_deref().map(|tool| Value::Text(Some(visible(tool)))))
        .bind_some(" AND outcome = ", filter.outcome.map(|outcome| Value::word(outcome.as_str())))
        // Rounded up: what is kept is cut to the millisecond.
        .bind_some(" AND at >= ", filter.since.map(|since| Value::instant(next_millisecond(since))))
        .bind_some(" AND at < ", filter.until.map(|until| Value::instant(next_millisecond(until))));
    if let Some(after) = after {
        statement = statement
            .push(" AND (at, id) < (")
            .bind(Value::instant(after.at()))
            .push(", ")
            .bind(Value::id(after.id()))
            .push(")");
    }
    statement.push(" ORDER BY at DESC, id DESC LIMIT ").bind(Value::one_more(limit))
}

/// A page, from what the list has found.
pub(crate) fn page<Row: Columns>(
    dialect: &'static Dialect,
    rows: &[Row],
    limit: NonZeroU32,
) -> Result<AuditPage, StoreError> {
    let found = rows.iter().map(|row| decode(&Record::new(dialect.audit, row)));
    Ok(Page::cut(found.collect::<Result<_, _>>()?, limit, AuditCursor::after))
}

/// Removes the oldest entries.
pub(crate) fn prune(dialect: &'static Dialect, before: OffsetDateTime, max_rows: NonZeroU32) -> Statement {
    let audit = dialect.audit;
    Statement::new(dialect, format!("DELETE FROM {audit} WHERE id IN (SELECT id FROM {audit} WHERE at < "))
        .bind(Value::instant(before))
        .push(" ORDER BY at, id LIMIT ")
        .bind(Value::integer(max_rows.get()))
        .push(")")
}

/// Marks what was running.
pub(crate) fn interrupt(dialect: &'static Dialect) -> Statement {
    let interrupted = Value::word(AuditOutcome::Interrupted.as_str());
    Statement::update(dialect, dialect.audit, vec![("outcome", interrupted)])
        .push(" WHERE outcome = ")
        .bind(Value::word(AuditOutcome::Running.as_str()))
}

/// Many entries as one JSON text, every column of each in the order of the table, instants in
/// milliseconds. One value instead of eleven for each entry: the statement is the same for any number of
/// them, so that a database understands it once and not with every batch.
pub(crate) fn appended(entries: &[AuditEntry]) -> String {
    let rows: Vec<Json> = entries
        .iter()
        .map(|entry| {
            serde_json::json!([
                entry.id,
                clock::to_millis(entry.at),
                visible(&entry.tool),
                entry.workspace_id.map(|id| id.as_uuid()),
                entry.session_id,
                entry.caller.map(|id| id.as_uuid()),
                visible(&entry.request_id),
                entry.duration_ms.map(saturating),
                entry.outcome.as_str(),
                entry.error_code.as_deref().map(visible),
                without_zero_bytes(&entry.summary),
            ])
        })
        .collect();
    Json::from(rows).to_string()
}

/// The ends of many calls as one JSON text: `[[id, duration_ms, outcome, error_code, summary], …]`.
pub(crate) fn finishes(finishes: &[AuditFinish]) -> String {
    let rows: Vec<Json> = finishes
        .iter()
        .map(|finish| {
            serde_json::json!([
                finish.id,
                saturating(finish.duration_ms),
                finish.outcome.as_str(),
                finish.error_code.as_deref().map(visible),
                finish.summary.as_ref().map(without_zero_bytes),
                finish.workspace_id,
            ])
        })
        .collect();
    Json::from(rows).to_string()
}

/// The meaning of a row that has every column.
pub(crate) fn decode<Row: Columns>(record: &Record<'_, Row>) -> Result<AuditEntry, StoreError> {
    Ok(AuditEntry {
        id: record.id("id")?,
        at: record.instant("at")?,
        tool: record.text("tool")?,
        workspace_id: record.id_optional("workspace_id")?,
        session_id: record.id_optional("session_id")?,
        caller: record.id_optional("caller")?,
        request_id: record.text("request_id")?,
        duration_ms: record.number_optional("duration_ms")?,
        outcome: record.word("outcome")?,
        error_code: record.text_optional("error_code")?,
        summary: record.json("summary")?,
    })
}

/// The first instant with whole milliseconds that is not before this one.
fn next_millisecond(instant: OffsetDateTime) -> OffsetDateTime {
    instant.checked_add(time::Duration::nanoseconds(999_999)).unwrap_or(instant)
}

fn saturating(millis: u64) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}

/// What somebody tried is written down whatever it was: a zero byte, which text cannot have,
/// becomes a mark, and the call does not escape the log.
fn visible(text: &str) -> String {
    text.replace('\0', "\u{FFFD}")
}

fn without_zero_bytes(summary: &Map<String, Json>) -> Map<String, Json> {
    summary.iter().map(|(name, value)| (visible(name), value_without_zero_bytes(value))).collect()
}

fn value_without_zero_bytes(value: &Json) -> Json {
    match value {
        Json::String(text) => visible(text).into(),
        Json::Array(values) => values.iter().map(value_without_zero_bytes).collect(),
        Json::Object(map) => without_zero_bytes(map).into(),
        other => other.clone(),
    }
}
