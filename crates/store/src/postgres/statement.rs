//! How PostgreSQL spells values: ids as UUIDs, instants as timestamps, JSON as JSONB.

use sqlx::postgres::{PgArguments, PgRow, PgValueFormat};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Decode, Postgres, Row, Type, ValueRef};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::columns::keys::KeyTable;
use crate::columns::{Columns, Dialect, Record, Statement, Value};
use crate::error::Cause;

pub(super) static DIALECT: Dialect = Dialect {
    workspaces: "kb.agent_workspaces",
    tokens: "core.api_tokens",
    keys: KeyTable::of_workspaces("core.idempotency_keys"),
    token_keys: KeyTable::of_tokens("core.token_idempotency_keys"),
    snapshot_keys: KeyTable::of_snapshots("core.snapshot_idempotency_keys"),
    audit: "kb.tool_audit",
    snapshots: "kb.workspace_snapshots",
    attachments: "kb.workspace_attachments",
    settings: "core.settings",
    mcp_servers: "kb.mcp_servers",
    git_credentials: "core.git_credentials",
    json_cast: "::jsonb",
};

/// The statement, ready to run.
pub(super) fn query(statement: Statement) -> Query<'static, Postgres, PgArguments> {
    // The text is ours throughout; what came from elsewhere is in the values.
    let query = sqlx::query(AssertSqlSafe(statement.sql));
    statement.values.into_iter().fold(query, |query, value| match value {
        Value::Id(id) => query.bind(id),
        Value::Text(text) | Value::Json(text) => query.bind(text),
        Value::Instant(instant) => query.bind(instant),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Integer(number) => query.bind(number),
        Value::Flag(flag) => query.bind(flag),
    })
}

/// A row of the workspaces' table.
pub(super) fn workspace(row: &PgRow) -> Record<'_, PgRow> {
    Record::new(DIALECT.workspaces, row)
}

/// A row of the tokens' table.
pub(super) fn token(row: &PgRow) -> Record<'_, PgRow> {
    Record::new(DIALECT.tokens, row)
}

/// A form of JSONB that this program does not know.
#[derive(Debug, thiserror::Error)]
#[error("unknown version of JSONB")]
struct UnknownJsonb;

impl Columns for PgRow {
    fn id(&self, column: &str) -> Result<Option<Uuid>, Cause> {
        get(self, column)
    }

    fn text(&self, column: &str) -> Result<Option<&str>, Cause> {
        get(self, column)
    }

    fn instant(&self, column: &str) -> Result<Option<OffsetDateTime>, Cause> {
        get(self, column)
    }

    fn json(&self, column: &str) -> Result<Option<&str>, Cause> {
        let value = self.try_get_raw(column)?;
        if value.is_null() {
            return Ok(None);
        }
        let bytes = value.as_bytes()?;
        let text = match value.format() {
            PgValueFormat::Text => bytes,
            // A version, then the text.
            PgValueFormat::Binary => bytes.strip_prefix(&[1]).ok_or(UnknownJsonb)?,
        };
        Ok(Some(std::str::from_utf8(text)?))
    }

    fn bytes(&self, column: &str) -> Result<Option<&[u8]>, Cause> {
        get(self, column)
    }

    fn integer(&self, column: &str) -> Result<Option<i64>, Cause> {
        get(self, column)
    }

    fn flag(&self, column: &str) -> Result<Option<bool>, Cause> {
        get(self, column)
    }

    fn key(&self) -> Option<String> {
        Some(self.try_get::<Uuid, _>("id").ok()?.to_string())
    }
}

fn get<'a, T>(row: &'a PgRow, column: &str) -> Result<T, Cause>
where
    T: Decode<'a, Postgres> + Type<Postgres>,
{
    Ok(row.try_get(column)?)
}
