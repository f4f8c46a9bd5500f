//! The embedded database: SQLite in one file.
//!
//! ```text
//!   writes ──► writer pool (exactly 1 connection) ──┐
//!                                                   ├──► emergent.db, -wal, -shm   (0600)
//!   reads  ──► reader pool (few, read-only)  ───────┘    emergent.db.lock, .reserve
//! ```
//!
//! - **One writer.** Writes queue for one connection, so no write of this process ever meets
//!   another's lock. The lock file keeps other servers out; `busy_timeout` covers people who
//!   look into the file with a tool of their own.
//! - **WAL**, so that reads go on during writes, with `synchronous=FULL`, so that a commit is
//!   on the disk before it is acknowledged.
//! - **Room kept back.** A destroy can be written down on a full disk too ([`reserve`]).
//! - **Small.** Few connections with small caches: the whole database is a few megabytes, and
//!   the kernel caches it anyway.

mod attachments;
mod audit;
mod connection;
mod failure;
mod git_credentials;
mod installation;
mod keys;
mod lock;
mod mcp_servers;
pub(crate) mod migrations;
mod open;
mod reserve;
mod settings;
mod snapshots;
mod statement;
#[cfg(test)]
mod tests;
mod tokens;
mod workspaces;

use std::path::Path;

use sqlx::sqlite::SqliteRow;
use sqlx::{Sqlite, SqlitePool, Transaction};

use self::failure::because;
use self::lock::DatabaseLock;
use self::reserve::Reserve;
use self::statement::query;
use crate::columns::Statement;
use crate::{Installation, OpenError, Operation, StoreError, Vault};

/// A [`Store`](crate::Store) in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    writer: SqlitePool,
    readers: SqlitePool,
    vault: Vault,
    installation: Installation,
    reserve: Reserve,
    /// Last, so that it is let go after the connections.
    _lock: DatabaseLock,
}

impl SqliteStore {
    /// Opens the database at `path` and brings its schema up to date; makes it, with a new
    /// installation in it, where there is none. The folder must exist.
    ///
    /// Holds `<path>.lock` until the store is dropped: a second server on the same database
    /// gets [`OpenError::AlreadyInUse`]. May be killed at any point and called again.
    pub async fn open(path: &Path, vault: Vault) -> Result<Self, OpenError> {
        open::open(path, vault).await
    }

    /// A transaction that holds the write lock from its start. What is not committed when it
    /// is dropped is rolled back.
    async fn begin(&self, operation: Operation) -> Result<Transaction<'static, Sqlite>, StoreError> {
        self.writer.begin_with("BEGIN IMMEDIATE").await.map_err(because(operation))
    }
}

impl SqliteStore {
    /// One statement that writes. Returns how many rows changed.
    async fn write(&self, operation: Operation, statement: Statement) -> Result<u64, StoreError> {
        let done = query(statement).execute(&self.writer).await.map_err(because(operation))?;
        Ok(done.rows_affected())
    }

    /// The rows that one statement finds.
    async fn read(&self, operation: Operation, statement: Statement) -> Result<Vec<SqliteRow>, StoreError> {
        query(statement).fetch_all(&self.readers).await.map_err(because(operation))
    }
}

crate::delegation::store_by_own_methods!(SqliteStore);

impl SqliteStore {
    async fn check_health(&self) -> Result<(), StoreError> {
        // Reads a page of the file, which `SELECT 1` would not.
        sqlx::query("SELECT id FROM core_installation")
            .fetch_one(&self.readers)
            .await
            .map(drop)
            .map_err(because(Operation::Health))
    }

    async fn close_connections(&self) {
        // Readers first: the last connection to close folds the log into the file, and only
        // the writer may.
        self.readers.close().await;
        self.writer.close().await;
    }
}
