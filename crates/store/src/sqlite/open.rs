//! From a path to a working store.
//!
//! ```text
//!   lock ─► file, 0600 ─► writer ─► ours? ─► whole? ─► migrate ─► installation ─► readers
//! ```
//!
//! Each step can be repeated, so a kill anywhere is repaired by the next start. The questions
//! come before the first write: a file that is another program's, or damaged, or newer than
//! this program, stays as it is.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sqlx::SqliteConnection;

use super::failure::open_error;
use super::lock::DatabaseLock;
use super::reserve::Reserve;
use super::{SqliteStore, connection, installation, migrations};
use crate::{OpenError, Vault};

/// `'EMWS'`, set by the first migration.
const APPLICATION_ID: i64 = 0x454D_5753;

pub(super) async fn open(path: &Path, vault: Vault) -> Result<SqliteStore, OpenError> {
    let path = resolve(path).map_err(|cause| OpenError::Inaccessible { path: path.to_owned(), cause })?;
    let lock = DatabaseLock::acquire(&path)?;
    make_private_file(&path).map_err(|cause| OpenError::Inaccessible { path: path.clone(), cause })?;

    let database = path.display().to_string();
    let failed = |error| open_error(&database, error);
    let writer = connection::connect_writer(&path).await.map_err(failed)?;
    let installation = {
        let mut connection = writer.acquire().await.map_err(failed)?;
        refuse_foreign(&database, &mut connection).await?;
        refuse_damaged(&database, &mut connection).await?;
        migrations::run(&database, &mut connection).await?;
        installation::load_or_create(&database, &mut connection, &vault).await?
    };
    let readers = connection::connect_readers(&path).await.map_err(failed)?;
    tracing::info!(path = %path.display(), installation = %installation.id, "database open");
    // After what has to be written, which may need the last of the room.
    let reserve = Reserve::of(&path);
    Ok(SqliteStore { writer, readers, vault, installation, reserve, _lock: lock })
}

/// One name per file, so that two spellings of a path meet at the same lock.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            Ok(folder.canonicalize()?.join(name))
        }
        other => other,
    }
}

/// An empty file is an empty database. SQLite gives its companion files the same mode.
fn make_private_file(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))
}

async fn refuse_foreign(database: &str, connection: &mut SqliteConnection) -> Result<(), OpenError> {
    let application_id: i64 = sqlx::query_scalar("PRAGMA application_id")
        .fetch_one(&mut *connection)
        .await
        .map_err(|error| open_error(database, error))?;
    // A kill before the first migration leaves the migrator's own table and no id.
    let foreign_objects: i64 =
        sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE tbl_name <> '_sqlx_migrations'")
            .fetch_one(connection)
            .await
            .map_err(|error| open_error(database, error))?;
    if application_id != APPLICATION_ID && foreign_objects > 0 {
        return Err(OpenError::ForeignDatabase { database: database.to_owned() });
    }
    Ok(())
}

/// Reads the whole file once. It is small, and a damaged page is better found here than in
/// the middle of somebody's work.
async fn refuse_damaged(database: &str, connection: &mut SqliteConnection) -> Result<(), OpenError> {
    let verdict: String = sqlx::query_scalar("PRAGMA quick_check(1)")
        .fetch_one(connection)
        .await
        .map_err(|error| open_error(database, error))?;
    match verdict.as_str() {
        "ok" => Ok(()),
        _ => Err(OpenError::Damaged { database: database.to_owned(), detail: verdict }),
    }
}
