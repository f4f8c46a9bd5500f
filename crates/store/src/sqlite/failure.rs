//! What SQLite's failures mean. The only place that reads the driver's errors.

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

/// A failure while opening `database`.
pub(super) fn open_error(database: &str, error: sqlx::Error) -> OpenError {
    let database = database.to_owned();
    match primary_code(&error) {
        Some(code::NOTADB) => OpenError::NotADatabase { database },
        Some(code::CORRUPT) => OpenError::Damaged { database, detail: error.to_string() },
        _ => OpenError::Store { database, cause: store_error(Operation::Open, error) },
    }
}

fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xFF)
}
