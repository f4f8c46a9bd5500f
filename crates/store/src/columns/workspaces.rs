//! A workspace's row.

use std::num::NonZeroU32;

use emergent_types::{
    DiskEnforcement, IsolationLevel, Persistence, ResourceLimits, WorkspaceId, WorkspaceStatus,
};

use super::{Column, Columns, Dialect, Record, Statement, Value, Writing};
use crate::{
    Operation, Page, Place, StoreError, Vault, WorkspaceCursor, WorkspaceFilter, WorkspacePage, WorkspaceRow,
};

const ENVIRONMENT: &str = "environment_encrypted";

/// One name for every database, so that a sealed value may be moved from one to another.
const ENVIRONMENT_PLACE: &str = "kb_agent_workspaces.environment_encrypted";

fn place(row: &str) -> Place<'_> {
    Place { column: ENVIRONMENT_PLACE, row }
}

/// Writes all of a row.
pub(crate) fn insert(
    dialect: &'static Dialect,
    row: &WorkspaceRow,
    vault: &Vault,
) -> Result<Statement, StoreError> {
    let writing = Writing { operation: Operation::InsertWorkspace(row.id) };
    let id = row.id.to_string();
    let place = place(&id);
    let mut columns = vec![
        ("id", Value::id(row.id.as_uuid())),
        ("agent_session_id", Value::Id(row.agent_session_id)),
        ("container_type", Value::word(row.container_type.as_str())),
        ("repository_url", writing.text_optional("repository_url", row.repository_url.as_deref())?),
        ("branch", writing.text_optional("branch", row.branch.as_deref())?),
        ("deployment_mode", Value::word(row.deployment_mode.as_str())),
        ("lifecycle", Value::word(row.lifecycle.as_str())),
        ("created_at", Value::instant(row.created_at)),
        ("resource_limits", writing.json("resource_limits", &row.resource_limits)?),
        ("named_demands", writing.json_optional("named_demands", &row.named_demands)?),
        ("snapshot_id", writing.text_optional("snapshot_id", row.snapshot_id.as_deref())?),
        ("mcp_config", writing.json_optional("mcp_config", &row.mcp_config)?),
        ("requested_provider", Value::word(row.requested_provider.as_str())),
        ("min_isolation", Value::word(row.min_isolation.as_str())),
        ("base_image", writing.text_optional("base_image", row.base_image.as_deref())?),
        ("ttl_seconds", Value::Integer(row.ttl_seconds.map(i64::from))),
        (ENVIRONMENT, writing.sealed(ENVIRONMENT, place, &row.environment, vault)?),
        ("owner_id", Value::Id(row.owner_id.map(|id| id.as_uuid()))),
        ("acknowledged", Value::Flag(row.acknowledged)),
        ("warm_pool", writing.text_optional("warm_pool", row.warm_pool.as_deref())?),
    ];
    columns.extend(changing(row, &writing)?);
    Ok(Statement::insert(dialect, dialect.workspaces, vec![columns]))
}

/// Writes what may change in a row.
pub(crate) fn update(dialect: &'static Dialect, row: &WorkspaceRow) -> Result<Statement, StoreError> {
    let writing = Writing { operation: Operation::UpdateWorkspace(row.id) };
    Ok(Statement::update(dialect, dialect.workspaces, changing(row, &writing)?)
        .push(" WHERE id = ")
        .bind(Value::id(row.id.as_uuid())))
}

/// One row.
pub(crate) fn get(dialect: &'static Dialect, id: WorkspaceId) -> Statement {
    Statement::new(dialect, format!("SELECT * FROM {} WHERE id = ", dialect.workspaces))
        .bind(Value::id(id.as_uuid()))
}

/// Every row, oldest first.
pub(crate) fn all(dialect: &'static Dialect) -> Statement {
    Statement::new(dialect, format!("SELECT * FROM {} ORDER BY id", dialect.workspaces))
}

/// The newest rows; those that wait in a pool are nobody's and not listed.
pub(crate) fn list(
    dialect: &'static Dialect,
    filter: WorkspaceFilter,
    after: Option<WorkspaceCursor>,
    limit: NonZeroU32,
) -> Statement {
    Statement::new(dialect, format!("SELECT * FROM {} WHERE warm_pool IS NULL", dialect.workspaces))
        .bind_some(" AND status = ", filter.status.map(|status| Value::word(status.as_str())))
        .bind_some(" AND container_type = ", filter.container_type.map(|kind| Value::word(kind.as_str())))
        .bind_some(" AND provider = ", filter.provider.map(|provider| Value::word(provider.as_str())))
        .bind_some(" AND owner_id = ", filter.owner.map(|owner| Value::id(owner.as_uuid())))
        .bind_some(" AND (created_at, id) < (", after.map(|after| Value::instant(after.created_at)))
        .bind_some(", ", after.map(|after| Value::id(after.id.as_uuid())))
        .push(if after.is_some() { ")" } else { "" })
        .push(" ORDER BY created_at DESC, id DESC LIMIT ")
        .bind(Value::one_more(limit))
}

/// A page, from what the list has found.
pub(crate) fn page<Row: Columns>(
    dialect: &'static Dialect,
    rows: &[Row],
    limit: NonZeroU32,
    vault: &Vault,
) -> Result<WorkspacePage, StoreError> {
    let found = rows.iter().map(|row| decode(&Record::new(dialect.workspaces, row), vault));
    Ok(Page::cut(found.collect::<Result<_, _>>()?, limit, WorkspaceCursor::after))
}

/// Removes a row.
pub(crate) fn delete(dialect: &'static Dialect, id: WorkspaceId) -> Statement {
    Statement::new(dialect, format!("DELETE FROM {} WHERE id = ", dialect.workspaces))
        .bind(Value::id(id.as_uuid()))
}

/// Removes the row of a ready member of a pool.
pub(crate) fn delete_member(dialect: &'static Dialect, id: WorkspaceId) -> Statement {
    delete(dialect, id)
        .push(" AND warm_pool IS NOT NULL AND status = ")
        .bind(Value::word(WorkspaceStatus::Ready.as_str()))
}

/// Every column that may change.
fn changing(row: &WorkspaceRow, writing: &Writing) -> Result<Vec<Column>, StoreError> {
    Ok(vec![
        ("provider", Value::word(row.provider.as_str())),
        ("provider_workspace_id", writing.text("provider_workspace_id", &row.provider_workspace_id)?),
        ("status", Value::word(row.status.as_str())),
        ("last_used_at", Value::instant(row.last_used_at)),
        ("expires_at", Value::instant_optional(row.expires_at)),
        ("metadata", writing.json("metadata", &row.metadata)?),
        ("network", Value::word(row.network.as_str())),
        ("isolation", Value::word_optional(row.isolation.map(IsolationLevel::as_str))),
        ("persistence", Value::word_optional(row.persistence.map(Persistence::as_str))),
        ("disk_enforcement", Value::word_optional(row.disk_enforcement.map(DiskEnforcement::as_str))),
        ("attempts", writing.json("attempts", &row.attempts)?),
        ("warnings", writing.json("warnings", &row.warnings)?),
        ("error", writing.json_optional("error", &row.error)?),
        ("resume_attempts", Value::integer(row.resume_attempts)),
        ("repositories", writing.json_optional("repositories", &some(&row.repositories))?),
    ])
}

/// None at all are NULL, as in rows from before there were any.
pub(super) fn some<T>(list: &[T]) -> Option<&[T]> {
    (!list.is_empty()).then_some(list)
}

/// The meaning of a row that has every column.
pub(crate) fn decode<Row: Columns>(
    record: &Record<'_, Row>,
    vault: &Vault,
) -> Result<WorkspaceRow, StoreError> {
    let id: WorkspaceId = record.id("id")?;
    Ok(WorkspaceRow {
        id,
        agent_session_id: record.id_optional("agent_session_id")?,
        container_type: record.word("container_type")?,
        provider: record.word("provider")?,
        provider_workspace_id: record.text("provider_workspace_id")?,
        repository_url: record.text_optional("repository_url")?,
        branch: record.text_optional("branch")?,
        deployment_mode: record.word("deployment_mode")?,
        lifecycle: record.word("lifecycle")?,
        status: record.word("status")?,
        created_at: record.instant("created_at")?,
        last_used_at: record.instant("last_used_at")?,
        expires_at: record.instant_optional("expires_at")?,
        // The founding design lets these two be NULL.
        resource_limits: record
            .json_optional("resource_limits")?
            .unwrap_or(ResourceLimits::WORKSPACE_DEFAULT),
        named_demands: record.json_optional("named_demands")?,
        snapshot_id: record.text_optional("snapshot_id")?,
        mcp_config: record.json_optional("mcp_config")?,
        metadata: record.json_optional("metadata")?.unwrap_or_default(),
        requested_provider: record.word("requested_provider")?,
        min_isolation: record.word("min_isolation")?,
        network: record.word("network")?,
        base_image: record.text_optional("base_image")?,
        ttl_seconds: record.number_optional("ttl_seconds")?,
        environment: record.environment(ENVIRONMENT, place(&id.to_string()), vault)?,
        owner_id: record.id_optional("owner_id")?,
        isolation: record.word_optional("isolation")?,
        persistence: record.word_optional("persistence")?,
        disk_enforcement: record.word_optional("disk_enforcement")?,
        attempts: record.json("attempts")?,
        warnings: record.json("warnings")?,
        error: record.json_optional("error")?,
        resume_attempts: record.number("resume_attempts")?,
        acknowledged: record.flag("acknowledged")?,
        warm_pool: record.text_optional("warm_pool")?,
        repositories: record.json_optional("repositories")?.unwrap_or_default(),
    })
}
