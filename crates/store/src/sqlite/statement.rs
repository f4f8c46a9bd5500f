//! How SQLite spells values: ids as text, instants as milliseconds, JSON as text.

use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{AssertSqlSafe, Decode, Row, Sqlite, Type};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::clock;
use crate::columns::keys::KeyTable;
use crate::columns::{Columns, Dialect, Record, Statement, Value};
use crate::error::Cause;

pub(super) static DIALECT: Dialect = Dialect {
    workspaces: "kb_agent_workspaces",
    tokens: "core_api_tokens",
    keys: KeyTable::of_workspaces("core_idempotency_keys"),
    token_keys: KeyTable::of_tokens("core_token_idempotency_keys"),
    snapshot_keys: KeyTable::of_snapshots("core_snapshot_idempotency_keys"),
    audit: "kb_tool_audit",
    snapshots: "kb_workspace_snapshots",
    attachments: "kb_workspace_attachments",
    settings: "core_settings",
    mcp_servers: "kb_mcp_servers",
    git_credentials: "core_git_credentials",
    json_cast: "",
};

/// The statement, ready to run.
pub(super) fn query(statement: Statement) -> Query<'static, Sqlite, SqliteArguments> {
    // The text is ours throughout; what came from elsewhere is in the values.
    let query = sqlx::query(AssertSqlSafe(statement.sql));
    statement.values.into_iter().fold(query, |query, value| match value {
        Value::Id(id) => query.bind(id.map(|id| id.hyphenated().to_string())),
        Value::Text(text) | Value::Json(text) => query.bind(text),
        Value::Instant(instant) => query.bind(instant.map(clock::to_millis)),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Integer(number) => query.bind(number),
        Value::Flag(flag) => query.bind(flag),
    })
}

/// A row of the workspaces' table.
pub(super) fn workspace(row: &SqliteRow) -> Record<'_, SqliteRow> {
    Record::new(DIALECT.workspaces, row)
}

/// A row of the tokens' table.
pub(super) fn token(row: &SqliteRow) -> Record<'_, SqliteRow> {
    Record::new(DIALECT.tokens, row)
}

/// Text that is an id, but not as it is spelled here.
#[derive(Debug, thiserror::Error)]
#[error("{found:?} is not a hyphenated lower-case UUID")]
struct OtherSpelling {
    found: String,
}

impl Columns for SqliteRow {
    fn id(&self, column: &str) -> Result<Option<Uuid>, Cause> {
        let Some(text) = get::<Option<&str>>(self, column)? else { return Ok(None) };
        let id = Uuid::try_parse(text)?;
        // Comparisons in the database are of text.
        if id.hyphenated().to_string() == text {
            Ok(Some(id))
        } else {
            Err(OtherSpelling { found: text.to_owned() }.into())
        }
    }

    fn text(&self, column: &str) -> Result<Option<&str>, Cause> {
        get(self, column)
    }

    fn instant(&self, column: &str) -> Result<Option<OffsetDateTime>, Cause> {
        let millis: Option<i64> = get(self, column)?;
        Ok(millis.map(clock::from_millis).transpose()?)
    }

    fn json(&self, column: &str) -> Result<Option<&str>, Cause> {
        get(self, column)
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
        self.try_get("id").ok()
    }
}

fn get<'a, T>(row: &'a SqliteRow, column: &str) -> Result<T, Cause>
where
    T: Decode<'a, Sqlite> + Type<Sqlite>,
{
    Ok(row.try_get(column)?)
}
