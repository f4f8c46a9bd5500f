//! The row of a hosted MCP server.

use emergent_types::WorkspaceId;
use serde_json::Value as Json;

use super::{Column, Columns, Dialect, Record, Statement, Value, Writing};
use crate::{McpServerRow, Operation, Place, StoreError, Vault};

const ENVIRONMENT: &str = "environment_encrypted";

/// One name for every database, so that a sealed value may be moved from one to another.
const ENVIRONMENT_PLACE: &str = "kb_mcp_servers.environment_encrypted";

fn place(row: &str) -> Place<'_> {
    Place { column: ENVIRONMENT_PLACE, row }
}

/// Writes all of a row.
pub(crate) fn insert(
    dialect: &'static Dialect,
    row: &McpServerRow,
    vault: &Vault,
) -> Result<Statement, StoreError> {
    let writing = Writing { operation: Operation::InsertWorkspace(row.id) };
    let mut columns = vec![
        ("id", Value::id(row.id.as_uuid())),
        ("name", writing.text("name", &row.name)?),
        ("image", writing.text_optional("image", row.image.as_deref())?),
        ("image_defaults", writing.json_optional("image_defaults", &row.image_defaults)?),
        ("provider", Value::word(row.provider.as_str())),
        ("created_at", Value::instant(row.created_at)),
    ];
    columns.extend(changing(row, &writing, vault)?);
    Ok(Statement::insert(dialect, dialect.mcp_servers, vec![columns]))
}

/// Writes what may change in a row.
pub(crate) fn update(
    dialect: &'static Dialect,
    row: &McpServerRow,
    vault: &Vault,
) -> Result<Statement, StoreError> {
    let writing = Writing { operation: Operation::UpdateMcpServer(row.id) };
    Ok(Statement::update(dialect, dialect.mcp_servers, changing(row, &writing, vault)?)
        .push(" WHERE id = ")
        .bind(Value::id(row.id.as_uuid())))
}

/// Writes what the author of its image wants to be run.
pub(crate) fn set_image_defaults(
    dialect: &'static Dialect,
    id: WorkspaceId,
    defaults: &Json,
) -> Result<Statement, StoreError> {
    let writing = Writing { operation: Operation::UpdateMcpServer(id) };
    let columns = vec![("image_defaults", writing.json("image_defaults", defaults)?)];
    Ok(Statement::update(dialect, dialect.mcp_servers, columns)
        .push(" WHERE id = ")
        .bind(Value::id(id.as_uuid())))
}

/// Every row, oldest first.
pub(crate) fn all(dialect: &'static Dialect) -> Statement {
    Statement::new(dialect, format!("SELECT * FROM {} ORDER BY id", dialect.mcp_servers))
}

/// One row.
pub(crate) fn get(dialect: &'static Dialect, id: WorkspaceId) -> Statement {
    Statement::new(dialect, format!("SELECT * FROM {} WHERE id = ", dialect.mcp_servers))
        .bind(Value::id(id.as_uuid()))
}

/// Every column that may change.
fn changing(row: &McpServerRow, writing: &Writing, vault: &Vault) -> Result<Vec<Column>, StoreError> {
    let id = row.id.to_string();
    Ok(vec![
        ("command", writing.json_optional("command", &row.command)?),
        ("restart_policy", Value::word(row.restart_policy.as_str())),
        ("mode", Value::word(row.mode.as_str())),
        ("serialize", Value::Flag(row.serialize)),
        ("stdio_bridge", Value::Flag(row.stdio_bridge)),
        ("port", Value::Integer(row.port.map(i64::from))),
        ("path", writing.text_optional("path", row.path.as_deref())?),
        ("tools_allow", writing.json_optional("tools_allow", &row.tools_allow)?),
        ("tools_deny", writing.json("tools_deny", &row.tools_deny)?),
        ("call_timeout_ms", Value::integer(row.call_timeout_ms)),
        (ENVIRONMENT, writing.sealed(ENVIRONMENT, place(&id), &row.environment, vault)?),
        ("updated_at", Value::instant(row.updated_at)),
    ])
}

/// The meaning of a row that has every column.
pub(crate) fn decode<Row: Columns>(
    dialect: &'static Dialect,
    row: &Row,
    vault: &Vault,
) -> Result<McpServerRow, StoreError> {
    let record = Record::new(dialect.mcp_servers, row);
    let id: WorkspaceId = record.id("id")?;
    Ok(McpServerRow {
        id,
        name: record.text("name")?,
        image: record.text_optional("image")?,
        command: record.json_optional("command")?,
        image_defaults: record.json_optional("image_defaults")?,
        provider: record.word("provider")?,
        restart_policy: record.word("restart_policy")?,
        mode: record.word("mode")?,
        serialize: record.flag("serialize")?,
        stdio_bridge: record.flag("stdio_bridge")?,
        port: record.number_optional("port")?,
        path: record.text_optional("path")?,
        tools_allow: record.json_optional("tools_allow")?,
        tools_deny: record.json("tools_deny")?,
        call_timeout_ms: record.number("call_timeout_ms")?,
        environment: record.environment(ENVIRONMENT, place(&id.to_string()), vault)?,
        created_at: record.instant("created_at")?,
        updated_at: record.instant("updated_at")?,
    })
}
