//! Bringing the schema up to date.
//!
//! The migrations are part of the program. Each runs in one transaction together with the
//! note that it ran, so a kill between or within them leaves a database that the next start
//! continues from.

use std::sync::LazyLock;

use sqlx::PgConnection;
use sqlx::migrate::Migrator;

use super::failure::open_error;
use crate::OpenError;
use crate::migration::{latest_version, migrate_error, migrator, scripts};

pub(super) static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let mut migrations = migrator(scripts::POSTGRES);
    // Others may keep their tables in the same database, and notes of their own.
    migrations.create_schema("core");
    migrations.dangerous_set_table_name("core.workspace_migrations");
    // The installation's lock keeps others out.
    migrations.set_locking(false);
    migrations
});

/// Applies what is missing. Refuses a database that a later or different build has migrated.
pub(super) async fn run(database: &str, connection: &mut PgConnection) -> Result<(), OpenError> {
    MIGRATIONS
        .run_direct(None, connection, false)
        .await
        .map_err(|error| migrate_error(database, latest_version(&MIGRATIONS), error, open_error))
}
