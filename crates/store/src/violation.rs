//! What an insert can break, in terms that every database has.

use sqlx::error::ErrorKind;

use crate::{InsertWorkspaceError, McpServerRow, WorkspaceRow};

/// Whether a row with the same key exists.
pub(crate) fn is_duplicate(error: &sqlx::Error) -> bool {
    matches!(kind(error), Some(ErrorKind::UniqueViolation))
}

/// Why a workspace was refused, if it is to blame.
pub(crate) fn of_workspace(row: &WorkspaceRow, error: &sqlx::Error) -> Option<InsertWorkspaceError> {
    match kind(error)? {
        ErrorKind::UniqueViolation => Some(InsertWorkspaceError::AlreadyExists { id: row.id }),
        ErrorKind::ForeignKeyViolation => {
            Some(InsertWorkspaceError::UnknownOwner { id: row.id, owner: row.owner_id })
        }
        _ => None,
    }
}

/// Why an MCP server was refused, if it is to blame. Its id is its workspace's, which was new.
pub(crate) fn of_server(row: &McpServerRow, error: &sqlx::Error) -> Option<InsertWorkspaceError> {
    is_duplicate(error).then(|| InsertWorkspaceError::NameTaken { name: row.name.clone() })
}

fn kind(error: &sqlx::Error) -> Option<ErrorKind> {
    error.as_database_error().map(sqlx::error::DatabaseError::kind)
}
