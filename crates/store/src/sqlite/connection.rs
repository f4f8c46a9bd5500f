//! How connections to the file are made and kept.

use std::path::Path;
use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{Connection, Sqlite, SqliteConnection, SqlitePool};

/// Reads are short and served from memory: more connections would only cost memory.
const MAX_READERS: u32 = 2;
/// Kibibytes of page cache per connection.
const CACHE_KIB: u32 = 512;
/// Above this the log is cut after a checkpoint, so that one burst does not keep its disk.
const MAX_IDLE_LOG_BYTES: u32 = 4 << 20;
/// How long a call waits for a database that someone else holds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a call waits for its turn.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);

/// The one connection that writes.
pub(super) async fn connect_writer(path: &Path) -> Result<SqlitePool, sqlx::Error> {
    let options = options(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .pragma("journal_size_limit", MAX_IDLE_LOG_BYTES.to_string());
    pool(1).connect_with(options).await
}

/// The connections that only read.
pub(super) async fn connect_readers(path: &Path) -> Result<SqlitePool, sqlx::Error> {
    pool(MAX_READERS).connect_with(options(path).read_only(true)).await
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
        .pragma("cache_size", format!("-{CACHE_KIB}"))
}

fn pool(max_connections: u32) -> PoolOptions<Sqlite> {
    PoolOptions::new()
        .max_connections(max_connections)
        .acquire_timeout(QUEUE_TIMEOUT)
        // A connection to a local file does not grow stale.
        .max_lifetime(None)
        .idle_timeout(None)
        // Checked when it is given back instead.
        .test_before_acquire(false)
        .after_release(|connection, _| Box::pin(is_reusable(connection)))
}

/// Whether a connection that was given back can be given out again.
///
/// When a commit meets a full disk, SQLite may roll back by itself. The driver then fails to
/// roll back a second time and believes to be in a transaction for ever; every later `BEGIN`
/// on that connection would fail. Such a connection is replaced.
async fn is_reusable(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    // The rollback of a dropped transaction is queued; the answer to a ping comes after it.
    connection.ping().await?;
    Ok(!connection.is_in_transaction())
}
