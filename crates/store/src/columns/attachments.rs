//! Sessions' times in workspaces.

use emergent_types::WorkspaceId;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Columns, Dialect, Record, Statement, Value};
use crate::{Attachment, StoreError};

/// Begins one. Its key is made here: nobody else names it.
pub(crate) fn insert(dialect: &'static Dialect, attachment: &Attachment) -> Statement {
    let columns = vec![
        ("id", Value::id(Uuid::now_v7())),
        ("workspace_id", Value::id(attachment.workspace_id.as_uuid())),
        ("session_id", Value::id(attachment.session_id)),
        ("attached_at", Value::instant(attachment.attached_at)),
    ];
    Statement::insert(dialect, dialect.attachments, vec![columns])
}

/// Ends the one that goes on.
pub(crate) fn end(dialect: &'static Dialect, workspace: WorkspaceId, at: OffsetDateTime) -> Statement {
    Statement::update(dialect, dialect.attachments, vec![("detached_at", Value::instant(at))])
        .push(" WHERE detached_at IS NULL AND workspace_id = ")
        .bind(Value::id(workspace.as_uuid()))
}

/// Says in the workspace's row who is there.
pub(crate) fn set_session(
    dialect: &'static Dialect,
    workspace: WorkspaceId,
    session: Option<Uuid>,
) -> Statement {
    Statement::update(dialect, dialect.workspaces, vec![("agent_session_id", Value::Id(session))])
        .push(" WHERE id = ")
        .bind(Value::id(workspace.as_uuid()))
}

/// All of a workspace, oldest first.
pub(crate) fn of_workspace(dialect: &'static Dialect, workspace: WorkspaceId) -> Statement {
    Statement::new(dialect, format!("SELECT * FROM {} WHERE workspace_id = ", dialect.attachments))
        .bind(Value::id(workspace.as_uuid()))
        .push(" ORDER BY id")
}

/// The meaning of a row that has every column.
pub(crate) fn decode<Row: Columns>(dialect: &'static Dialect, row: &Row) -> Result<Attachment, StoreError> {
    let record = Record::new(dialect.attachments, row);
    Ok(Attachment {
        workspace_id: record.id("workspace_id")?,
        session_id: record.id("session_id")?,
        attached_at: record.instant("attached_at")?,
        detached_at: record.instant_optional("detached_at")?,
    })
}
