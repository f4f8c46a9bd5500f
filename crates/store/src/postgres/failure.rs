//! What PostgreSQL's failures mean. The only place that reads the driver's errors.

use std::time::Duration;

use crate::{OpenError, Operation, StoreError};

/// PostgreSQL's error codes: <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
mod code {
    pub(super) const SERIALIZATION_FAILURE: &str = "40001";
    pub(super) const DEADLOCK_DETECTED: &str = "40P01";
    pub(super) const LOCK_NOT_AVAILABLE: &str = "55P03";
    pub(super) const QUERY_CANCELED: &str = "57014";
    pub(super) const DISK_FULL: &str = "53100";
    pub(super) const DUPLICATE_TABLE: &str = "42P07";
    pub(super) const READ_ONLY_TRANSACTION: &str = "25006";
    pub(super) const IDLE_IN_TRANSACTION: &str = "25P03";
    /// Damaged data or a damaged index.
    pub(super) const CORRUPTED: [&str; 2] = ["XX001", "XX002"];
    /// Connection exceptions, lack of resources, and the operator's interventions: the server
    /// stops, starts, or has no room for another connection.
    pub(super) const AWAY: [&str; 3] = ["08", "53", "57"];
}

/// The database said nothing for too long.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {limit:?}")]
pub(super) struct NoAnswer {
    pub(super) limit: Duration,
}

/// For `map_err`: the failure of `operation`.
pub(super) fn because(operation: Operation) -> impl Fn(sqlx::Error) -> StoreError {
    move |error| store_error(operation, error)
}

fn store_error(operation: Operation, error: sqlx::Error) -> StoreError {
    match &error {
        sqlx::Error::PoolClosed => StoreError::Closed { operation },
        // Refused, reset, gone, or silent: what is behind it is away.
        sqlx::Error::PoolTimedOut
        | sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::BeginFailed => StoreError::Unavailable { operation, cause: error.into() },
        _ => match database_code(&error).as_deref() {
            Some(
                code::SERIALIZATION_FAILURE
                | code::DEADLOCK_DETECTED
                | code::LOCK_NOT_AVAILABLE
                | code::QUERY_CANCELED,
            ) => StoreError::Busy { operation },
            Some(code::DISK_FULL) => StoreError::DiskFull { operation },
            Some(found) if code::CORRUPTED.contains(&found) => {
                StoreError::Damaged { operation, detail: error.to_string() }
            }
            Some(code::READ_ONLY_TRANSACTION | code::IDLE_IN_TRANSACTION) => {
                StoreError::Unavailable { operation, cause: error.into() }
            }
            Some(found) if code::AWAY.iter().any(|class| found.starts_with(class)) => {
                StoreError::Unavailable { operation, cause: error.into() }
            }
            _ => StoreError::Database { operation, cause: error.into() },
        },
    }
}

/// A failure while opening `database`.
pub(super) fn open_error(database: &str, error: sqlx::Error) -> OpenError {
    let database = database.to_owned();
    if is_mistrust(&error) {
        return OpenError::Untrusted { database, cause: error.into() };
    }
    match database_code(&error).as_deref() {
        // A table of ours is there, but no word of who made it.
        Some(code::DUPLICATE_TABLE) => OpenError::ForeignDatabase { database },
        _ => OpenError::Store { database, cause: store_error(Operation::Open, error) },
    }
}

/// Whether it failed over TLS: the driver passes on what is said of a certificate as a failure of
/// the connection, on which nothing that makes sense came.
fn is_mistrust(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Tls(_) => true,
        sqlx::Error::Io(cause) => cause.kind() == std::io::ErrorKind::InvalidData,
        _ => false,
    }
}

fn database_code(error: &sqlx::Error) -> Option<String> {
    Some(error.as_database_error()?.code()?.into_owned())
}
