//! The one row of `core.installation`.

use sqlx::{Connection, PgConnection, Row};

use super::failure::open_error;
use crate::columns::{Record, installation};
use crate::{Installation, OpenError, Vault, clock};

/// Reads who this installation is; decides it where nobody has.
pub(super) async fn load_or_create(
    database: &str,
    connection: &mut PgConnection,
    vault: &Vault,
) -> Result<Installation, OpenError> {
    let failed = |error| open_error(database, error);
    let mut transaction = connection.begin().await.map_err(failed)?;
    let row = sqlx::query("SELECT id, secret_encrypted FROM core.installation")
        .fetch_optional(&mut *transaction)
        .await
        .map_err(failed)?;
    if let Some(row) = row {
        return installation::decode(database, &Record::new("core.installation", &row), vault);
    }
    let (installation, sealed) = installation::generate(database, vault)?;
    sqlx::query("INSERT INTO core.installation (id, secret_encrypted, created_at) VALUES ($1, $2, $3)")
        .bind(installation.id.as_uuid())
        .bind(sealed)
        .bind(clock::now())
        .execute(&mut *transaction)
        .await
        .map_err(failed)?;
    transaction.commit().await.map_err(failed)?;
    Ok(installation)
}

/// Makes this server the latest, and says which number it has. Waits for writes of the one
/// before; from then on those are refused.
pub(super) async fn take_over(database: &str, connection: &mut PgConnection) -> Result<i64, OpenError> {
    let row =
        sqlx::query("UPDATE core.installation SET server_epoch = server_epoch + 1 RETURNING server_epoch")
            .fetch_one(connection)
            .await
            .map_err(|error| open_error(database, error))?;
    row.try_get("server_epoch").map_err(|error| open_error(database, error))
}
