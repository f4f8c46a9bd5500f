//! The one row of `core_installation`.

use std::path::Path;

use emergent_types::InstallationId;
use sqlx::{Connection, Row, SqliteConnection};

use super::failure::open_error;
use crate::{Installation, OpenError, Place, SecretKey, StoreError, Vault, clock};

const SECRET_COLUMN: &str = "core_installation.secret_encrypted";

/// Reads who this installation is; decides it where nobody has.
///
/// The secret is sealed, so a key that does not fit the database is noticed here, before
/// anything is written with it.
pub(super) async fn load_or_create(
    path: &Path,
    connection: &mut SqliteConnection,
    vault: &Vault,
) -> Result<Installation, OpenError> {
    let failed = |error| open_error(path, error);
    let vault_failed = |cause| OpenError::Vault { path: path.to_owned(), cause };
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
    let row = sqlx::query("SELECT id, secret_encrypted FROM core_installation")
        .fetch_optional(&mut *transaction)
        .await
        .map_err(failed)?;
    if let Some(row) = row {
        let id_text: String = row.try_get("id").map_err(failed)?;
        let sealed: Vec<u8> = row.try_get("secret_encrypted").map_err(failed)?;
        let unreadable = |column: &str, cause| OpenError::Store {
            path: path.to_owned(),
            cause: StoreError::UnreadableRow { row: id_text.clone(), column: column.to_owned(), cause },
        };
        let id: InstallationId =
            id_text.parse().map_err(|cause| unreadable("core_installation.id", Box::new(cause)))?;
        let place = Place { column: SECRET_COLUMN, row: &id_text };
        let secret = vault.open(place, &sealed).map_err(vault_failed)?;
        let secret = SecretKey::try_from(secret.as_slice())
            .map_err(|cause| unreadable(SECRET_COLUMN, Box::new(cause)))?;
        return Ok(Installation { id, secret });
    }

    let secret = SecretKey::generate().map_err(|cause| OpenError::NoRandomness { cause: cause.into() })?;
    let installation = Installation { id: InstallationId::generate(), secret };
    let id_text = installation.id.to_string();
    let place = Place { column: SECRET_COLUMN, row: &id_text };
    let sealed = vault.seal(place, installation.secret.expose()).map_err(vault_failed)?;
    sqlx::query(
        "INSERT INTO core_installation (only_row, id, secret_encrypted, created_at) VALUES (1, ?, ?, ?)",
    )
    .bind(&id_text)
    .bind(sealed)
    .bind(clock::to_millis(clock::now()))
    .execute(&mut *transaction)
    .await
    .map_err(failed)?;
    transaction.commit().await.map_err(failed)?;
    Ok(installation)
}
