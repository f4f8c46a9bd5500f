//! The one row that says who this installation is.

use emergent_types::InstallationId;

use super::{Columns, Record};
use crate::{Installation, OpenError, Place, SecretKey, Vault};

const SECRET: &str = "secret_encrypted";

/// One name for every database, so that a sealed value may be moved from one to another.
const SECRET_PLACE: &str = "core_installation.secret_encrypted";

/// Reads who this installation is.
///
/// The secret is sealed, so a key that does not fit `database` is noticed here, before
/// anything is written with it.
pub(crate) fn decode<Row: Columns>(
    database: &str,
    record: &Record<'_, Row>,
    vault: &Vault,
) -> Result<Installation, OpenError> {
    let unreadable = |cause| OpenError::Store { database: database.to_owned(), cause };
    let id: InstallationId = record.id("id").map_err(unreadable)?;
    let sealed = record.bytes_optional(SECRET).map_err(unreadable)?.unwrap_or_default();
    let place = Place { column: SECRET_PLACE, row: &id.to_string() };
    let secret = vault
        .open(place, sealed)
        .map_err(|cause| OpenError::Vault { database: database.to_owned(), cause })?;
    let secret = SecretKey::try_from(secret.as_slice())
        .map_err(|cause| unreadable(record.unreadable(SECRET, cause)))?;
    Ok(Installation { id, secret })
}

/// Decides who it is, with the secret as it is kept.
pub(crate) fn generate(database: &str, vault: &Vault) -> Result<(Installation, Vec<u8>), OpenError> {
    let secret = SecretKey::generate().map_err(|cause| OpenError::NoRandomness { cause: cause.into() })?;
    let installation = Installation { id: InstallationId::generate(), secret };
    let place = Place { column: SECRET_PLACE, row: &installation.id.to_string() };
    let sealed = vault
        .seal(place, installation.secret.expose())
        .map_err(|cause| OpenError::Vault { database: database.to_owned(), cause })?;
    Ok((installation, sealed))
}
