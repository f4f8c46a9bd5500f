//! The one row of `core_installation`.

use sqlx::{Connection, SqliteConnection};

use super::failure::open_error;
use crate::columns::{Record, installation};
use crate::{Installation, OpenError, Vault, clock};

/// Reads who this installation is; decides it where nobody has.
pub(super) async fn load_or_create(
    database: &str,
    connection: &mut SqliteConnection,
    vault: &Vault,
) -> Result<Installation, OpenError> {
    let failed = |error| open_error(database, error);
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    let row = sqlx::query("SELECT id, secret_encrypted FROM core_installation")
        .fetch_optional(&mut *transaction)
        .await
        .map_err(failed)?;
    if let Some(row) = row {
        return installation::decode(database, &Record::new("core_installation", &row), vault);
    }
    let (installation, sealed) = installation::generate(database, vault)?;
    sqlx::query(
        "INSERT INTO core_installation (only_row, id, secret_encrypted, created_at) VALUES (1, ?, ?, ?)",
    )
    .bind(installation.id.to_string())
    .bind(sealed)
    .bind(clock::to_millis(clock::now()))
    .execute(&mut *transaction)
    .await
    .map_err(failed)?;
    transaction.commit().await.map_err(failed)?;
    Ok(installation)
}
