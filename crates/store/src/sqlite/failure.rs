//! What SQLite's failures mean. The only place that reads the driver's errors.

use std::path::Path;

use sqlx::error::ErrorKind;
use sqlx::migrate::MigrateError;

use crate::{OpenError, Operation, StoreError};

/// SQLite's primary result codes: <https://sqlite.org/rescode.html>.
mod code {
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const NOTADB: i32 = 26;
}

/// For `map_err`: the failure of `operation`.
pub(super) fn because(operation: Operation) -> impl Fn(sqlx::Error) -> StoreError {
    move |error| store_error(operation, error)
}

fn store_error(operation: Operation, error: sqlx::Error) -> StoreError {
    match &error {
        // The queue for a connection did not move for half a minute.
        sqlx::Error::PoolTimedOut => StoreError::Busy { operation },
        sqlx::Error::PoolClosed => StoreError::Closed { operation },
        _ => match primary_code(&error) {
            Some(code::BUSY | code::LOCKED) => StoreError::Busy { operation },
            Some(code::FULL) => StoreError::DiskFull { operation },
            Some(code::CORRUPT | code::NOTADB) => {
                StoreError::Damaged { operation, detail: error.to_string() }
            }
            _ => StoreError::Database { operation, cause: error.into() },
        },
    }
}

/// Whether a row with the same key exists.
pub(super) fn is_duplicate(error: &sqlx::Error) -> bool {
    database_kind(error).is_some_and(|kind| matches!(kind, ErrorKind::UniqueViolation))
}

/// Whether a row refers to one that does not exist.
pub(super) fn is_dangling_reference(error: &sqlx::Error) -> bool {
    database_kind(error).is_some_and(|kind| matches!(kind, ErrorKind::ForeignKeyViolation))
}

/// A failure while opening the file at `path`.
pub(super) fn open_error(path: &Path, error: sqlx::Error) -> OpenError {
    let path = path.to_owned();
    match primary_code(&error) {
        Some(code::NOTADB) => OpenError::NotADatabase { path },
        Some(code::CORRUPT) => OpenError::Damaged { path, detail: error.to_string() },
        _ => OpenError::Store { path, cause: store_error(Operation::Open, error) },
    }
}

/// A failure while migrating the file at `path`, by a program that knows the schema up to
/// `known`.
pub(super) fn migrate_error(path: &Path, known: i64, error: MigrateError) -> OpenError {
    match error {
        MigrateError::VersionMissing(found) if found > known => {
            OpenError::SchemaTooNew { path: path.to_owned(), found, known }
        }
        MigrateError::VersionMissing(version) | MigrateError::VersionMismatch(version) => {
            OpenError::SchemaDiverged { path: path.to_owned(), version }
        }
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => open_error(path, error),
        other => OpenError::Store {
            path: path.to_owned(),
            cause: StoreError::Database { operation: Operation::Open, cause: other.into() },
        },
    }
}

fn database_kind(error: &sqlx::Error) -> Option<ErrorKind> {
    error.as_database_error().map(sqlx::error::DatabaseError::kind)
}

fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xFF)
}
