//! A snapshot's row.

use std::num::NonZeroU32;

use emergent_types::SnapshotId;

use super::workspaces::some;
use super::{Columns, Dialect, Record, Statement, Value, Writing};
use crate::{
    Operation, Page, SnapshotCursor, SnapshotFilter, SnapshotPage, SnapshotRow, SnapshotStatus, StoreError,
};

/// Writes all of a row.
pub(crate) fn insert(dialect: &'static Dialect, row: &SnapshotRow) -> Result<Statement, StoreError> {
    let writing = Writing { operation: Operation::InsertSnapshot(row.id) };
    let columns = vec![
        ("id", Value::id(row.id.as_uuid())),
        ("workspace_id", Value::id(row.workspace_id.as_uuid())),
        ("provider", Value::word(row.provider.as_str())),
        ("status", Value::word(row.status.as_str())),
        ("name", writing.text_optional("name", row.name.as_deref())?),
        ("isolation", Value::word(row.isolation.as_str())),
        ("network", Value::word(row.network.as_str())),
        ("resource_limits", writing.json("resource_limits", &row.resource_limits)?),
        ("base_image", writing.text_optional("base_image", row.base_image.as_deref())?),
        ("repository_url", writing.text_optional("repository_url", row.repository_url.as_deref())?),
        ("branch", writing.text_optional("branch", row.branch.as_deref())?),
        ("repositories", writing.json_optional("repositories", &some(&row.repositories))?),
        ("owner_id", Value::Id(row.owner_id.map(|id| id.as_uuid()))),
        ("created_at", Value::instant(row.created_at)),
    ];
    Ok(Statement::insert(dialect, dialect.snapshots, vec![columns]))
}

/// How many there are.
pub(crate) fn count(dialect: &'static Dialect) -> Statement {
    Statement::new(dialect, format!("SELECT count(*) AS number FROM {}", dialect.snapshots))
}

/// What was counted.
pub(crate) fn counted<Row: Columns>(dialect: &'static Dialect, row: &Row) -> Result<u32, StoreError> {
    Record::new(dialect.snapshots, row).number("number")
}

/// Writes a new status.
pub(crate) fn update(dialect: &'static Dialect, id: SnapshotId, status: SnapshotStatus) -> Statement {
    Statement::update(dialect, dialect.snapshots, vec![("status", Value::word(status.as_str()))])
        .push(" WHERE id = ")
        .bind(Value::id(id.as_uuid()))
}

/// One row.
pub(crate) fn get(dialect: &'static Dialect, id: SnapshotId) -> Statement {
    Statement::new(dialect, format!("SELECT * FROM {} WHERE id = ", dialect.snapshots))
        .bind(Value::id(id.as_uuid()))
}

/// Every row, oldest first.
pub(crate) fn all(dialect: &'static Dialect) -> Statement {
    Statement::new(dialect, format!("SELECT * FROM {} ORDER BY id", dialect.snapshots))
}

/// The newest rows.
pub(crate) fn list(
    dialect: &'static Dialect,
    filter: SnapshotFilter,
    after: Option<SnapshotCursor>,
    limit: NonZeroU32,
) -> Statement {
    Statement::new(dialect, format!("SELECT * FROM {} WHERE true", dialect.snapshots))
        .bind_some(" AND owner_id = ", filter.owner.map(|owner| Value::id(owner.as_uuid())))
        .bind_some(" AND workspace_id = ", filter.workspace.map(|id| Value::id(id.as_uuid())))
        .bind_some(" AND id < ", after.map(|after| Value::id(after.id().as_uuid())))
        .push(" ORDER BY id DESC LIMIT ")
        .bind(Value::one_more(limit))
}

/// A page, from what the list has found.
pub(crate) fn page<Row: Columns>(
    dialect: &'static Dialect,
    rows: &[Row],
    limit: NonZeroU32,
) -> Result<SnapshotPage, StoreError> {
    let found = rows.iter().map(|row| decode(dialect, row));
    Ok(Page::cut(found.collect::<Result<_, _>>()?, limit, |last| SnapshotCursor::after(last.id)))
}

/// Removes a row.
pub(crate) fn delete(dialect: &'static Dialect, id: SnapshotId) -> Statement {
    Statement::new(dialect, format!("DELETE FROM {} WHERE id = ", dialect.snapshots))
        .bind(Value::id(id.as_uuid()))
}

/// The meaning of a row that has every column.
pub(crate) fn decode<Row: Columns>(dialect: &'static Dialect, row: &Row) -> Result<SnapshotRow, StoreError> {
    let record = Record::new(dialect.snapshots, row);
    Ok(SnapshotRow {
        id: record.id("id")?,
        workspace_id: record.id("workspace_id")?,
        provider: record.word("provider")?,
        status: record.word("status")?,
        name: record.text_optional("name")?,
        isolation: record.word("isolation")?,
        network: record.word("network")?,
        resource_limits: record.json("resource_limits")?,
        base_image: record.text_optional("base_image")?,
        repository_url: record.text_optional("repository_url")?,
        repositories: record.json_optional("repositories")?.unwrap_or_default(),
        branch: record.text_optional("branch")?,
        owner_id: record.id_optional("owner_id")?,
        created_at: record.instant("created_at")?,
    })
}
