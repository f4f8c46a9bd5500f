//! What can be said about migrations of any database.

use sqlx::SqlSafeStr;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};

use crate::{OpenError, Operation, StoreError};

/// A migration as it is in its folder: its number, what it is about, and its SQL.
type Script = (i64, &'static str, &'static str);

/// Those of each database; written by the build script.
pub(crate) mod scripts {
    use super::Script;

    include!(concat!(env!("OUT_DIR"), "/migrations.rs"));
}

/// What applies them.
pub(crate) fn migrator(scripts: &[Script]) -> Migrator {
    let migration = |(version, description, sql): &Script| {
        Migration::new(*version, (*description).into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(scripts.iter().map(migration).collect())
}

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

/// Nothing that anybody has written is lost by a migration. An index holds nothing of its own.
#[cfg(test)]
pub(crate) fn assert_only_adds(migration: &Migration) {
    let sql = migration.sql.as_str().to_uppercase();
    let sql = sql.replace("DROP INDEX ", "").replace("ON DELETE CASCADE", "");
    for word in ["DROP ", "DELETE ", "RENAME ", "UPDATE "] {
        assert!(!sql.contains(word), "migration {} contains {word}", migration.version);
    }
}
