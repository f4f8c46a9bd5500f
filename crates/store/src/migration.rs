//! What can be said about migrations of any database.

use sqlx::migrate::{MigrateError, Migrator};

use crate::{OpenError, Operation, StoreError};

/// The latest schema that `migrations` make.
pub(crate) fn latest_version(migrations: &Migrator) -> i64 {
    migrations.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// A failure while migrating `database`, by a program that knows the schema up to `known`;
/// what the database itself said is `open_error`'s to explain.
pub(crate) fn migrate_error(
    database: &str,
    known: i64,
    error: MigrateError,
    open_error: fn(&str, sqlx::Error) -> OpenError,
) -> OpenError {
    match error {
        MigrateError::VersionMissing(found) if found > known => {
            OpenError::SchemaTooNew { database: database.to_owned(), found, known }
        }
        MigrateError::VersionMissing(version) | MigrateError::VersionMismatch(version) => {
            OpenError::SchemaDiverged { database: database.to_owned(), version }
        }
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            open_error(database, error)
        }
        other => OpenError::Store {
            database: database.to_owned(),
            cause: StoreError::Database { operation: Operation::Open, cause: other.into() },
        },
    }
}
