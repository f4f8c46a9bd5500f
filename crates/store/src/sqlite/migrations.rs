//! Bringing the schema up to date.
//!
//! The migrations are part of the program. Each runs in one transaction together with the
//! note that it ran, so a kill between or within them leaves a database that the next start
//! continues from.

use std::path::Path;

use sqlx::SqliteConnection;
use sqlx::migrate::Migrator;

use super::failure::migrate_error;
use crate::OpenError;

pub(super) static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");

/// Applies what is missing. Refuses a database that a later or different build has migrated.
pub(super) async fn run(path: &Path, connection: &mut SqliteConnection) -> Result<(), OpenError> {
    MIGRATIONS
        .run_direct(None, connection, false)
        .await
        .map_err(|error| migrate_error(path, latest_version(), error))
}

fn latest_version() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0)
}
