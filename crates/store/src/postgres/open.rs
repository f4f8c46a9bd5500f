//! From a URL to a working store.
//!
//! ```text
//!   connect ─► lock ─► migrate ─► installation ─► take over ─► keep the lock ─► pool
//! ```
//!
//! Each step can be repeated, so a kill anywhere is repaired by the next start.

use super::connection::Target;
use super::failure::open_error;
use super::lock::InstallationLock;
use super::{PostgresStore, installation, lock, migrations};
use crate::{OpenError, Vault};

pub(super) async fn open(url: &str, vault: Vault) -> Result<PostgresStore, OpenError> {
    let target = Target::parse(url)?;
    let name = target.name.clone();
    let failed = |error| open_error(&name, error);
    let mut connection = target.connect().await.map_err(failed)?;
    lock::acquire(&name, &mut connection).await?;
    migrations::run(&name, &mut connection).await?;
    let installation = installation::load_or_create(&name, &mut connection, &vault).await?;
    let epoch = installation::take_over(&name, &mut connection).await?;
    let pool = target.pool();
    let lock = InstallationLock::keep(target, connection, epoch);
    tracing::info!(database = name, installation = %installation.id, "database open");
    Ok(PostgresStore { pool, vault, installation, lock })
}
