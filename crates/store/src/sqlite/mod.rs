//! The embedded database: SQLite in one file.
//!
//! ```text
//!   writes ──► writer pool (exactly 1 connection) ──┐
//!                                                   ├──► emergent.db, -wal, -shm   (0600)
//!   reads  ──► reader pool (few, read-only)  ───────┘    emergent.db.lock
//! ```
//!
//! - **One writer.** Writes queue for one connection, so no write of this process ever meets
//!   another's lock. The lock file keeps other servers out; `busy_timeout` covers people who
//!   look into the file with a tool of their own.
//! - **WAL**, so that reads go on during writes, with `synchronous=FULL`, so that a commit is
//!   on the disk before it is acknowledged.
//! - **Small.** Few connections with small caches: the whole database is a few megabytes, and
//!   the kernel caches it anyway.

mod connection;
mod failure;
mod installation;
mod lock;
mod migrations;
mod open;
mod record;
#[cfg(test)]
mod tests;
mod tokens;
mod workspace_record;
mod workspaces;

use std::num::NonZeroU32;
use std::path::Path;

use async_trait::async_trait;
use emergent_types::WorkspaceId;
use sqlx::{Sqlite, SqlitePool, Transaction};
use time::OffsetDateTime;

use self::failure::because;
use self::lock::DatabaseLock;
use crate::{
    ApiToken, ClaimResumeError, InsertTokenError, InsertWorkspaceError, Installation, OpenError, Operation,
    Store, StoreError, TokenHash, Touch, UpdateWorkspaceError, Vault, WorkspaceCursor, WorkspaceFilter,
    WorkspacePage, WorkspaceRow, WorkspaceUpdate,
};

/// A [`Store`] in one SQLite file.
#[derive(Debug)]
pub struct SqliteStore {
    writer: SqlitePool,
    readers: SqlitePool,
    vault: Vault,
    installation: Installation,
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

#[async_trait]
impl Store for SqliteStore {
    fn installation(&self) -> &Installation {
        &self.installation
    }

    async fn insert_workspace(
        &self,
        row: &WorkspaceRow,
        max_active: u32,
    ) -> Result<(), InsertWorkspaceError> {
        self.insert_workspace_row(row, max_active).await
    }

    async fn claim_resume(&self, id: WorkspaceId, max_active: u32) -> Result<WorkspaceRow, ClaimResumeError> {
        self.claim_workspace_resume(id, max_active).await
    }

    async fn update_workspace(
        &self,
        id: WorkspaceId,
        update: WorkspaceUpdate,
    ) -> Result<WorkspaceRow, UpdateWorkspaceError> {
        self.update_workspace_row(id, update).await
    }

    async fn touch_workspaces(&self, touches: &[Touch]) -> Result<u64, StoreError> {
        self.touch_workspace_rows(touches).await
    }

    async fn get_workspace(&self, id: WorkspaceId) -> Result<Option<WorkspaceRow>, StoreError> {
        self.get_workspace_row(id).await
    }

    async fn list_workspaces(
        &self,
        filter: WorkspaceFilter,
        after: Option<WorkspaceCursor>,
        limit: NonZeroU32,
    ) -> Result<WorkspacePage, StoreError> {
        self.list_workspace_rows(filter, after, limit).await
    }

    async fn workspaces_for_reconcile(&self) -> Result<Vec<WorkspaceRow>, StoreError> {
        self.all_workspace_rows().await
    }

    async fn expired(&self, now: OffsetDateTime, limit: NonZeroU32) -> Result<Vec<WorkspaceId>, StoreError> {
        self.expired_workspaces(now, limit).await
    }

    async fn delete_workspace(&self, id: WorkspaceId) -> Result<bool, StoreError> {
        self.delete_workspace_row(id).await
    }

    async fn count_active(&self) -> Result<u32, StoreError> {
        self.count_active_workspaces().await
    }

    async fn insert_token(&self, token: &ApiToken) -> Result<(), InsertTokenError> {
        self.insert_token_row(token).await
    }

    async fn find_token_by_hash(&self, hash: &TokenHash) -> Result<Option<ApiToken>, StoreError> {
        self.find_token_row(hash).await
    }

    async fn health(&self) -> Result<(), StoreError> {
        // Reads a page of the file, which `SELECT 1` would not.
        sqlx::query("SELECT id FROM core_installation")
            .fetch_one(&self.readers)
            .await
            .map(drop)
            .map_err(because(Operation::Health))
    }

    async fn close(&self) {
        // Readers first: the last connection to close folds the log into the file, and only
        // the writer may.
        self.readers.close().await;
        self.writer.close().await;
    }
}
