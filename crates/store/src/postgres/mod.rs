//! PostgreSQL, for installations that already have one.
//!
//! ```text
//!   calls ──► pool (few connections, every wait bounded) ──┐
//!                                                          ├──► schemas kb and core
//!   lock keeper ──► one connection of its own ─────────────┘    advisory lock, server_epoch
//! ```
//!
//! - **The database may go away.** A call then answers [`StoreError::Unavailable`] within
//!   seconds, and the next one after its return works: dead connections are found before they
//!   are used, and nothing has to be restarted.
//! - **One server per database.** A session of its own holds an advisory lock while the server
//!   lives. Sessions can break, so the lock alone would not do: each server has a number
//!   ([`lock`]), and every write looks in its own transaction whether that is still the latest.
//! - **Claims are exact.** Whoever counts places holds a lock until the count has been used.

mod attachments;
mod audit;
mod connection;
mod failure;
mod git_credentials;
mod installation;
mod keys;
mod lock;
mod mcp_servers;
mod migrations;
mod open;
mod settings;
mod snapshots;
mod statement;
#[cfg(test)]
mod tests;
mod tokens;
mod workspaces;

use std::time::Duration;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgPool, Postgres, Transaction};

use self::failure::{NoAnswer, because};
use self::lock::InstallationLock;
use self::statement::query;
use crate::columns::Statement;
use crate::{Installation, OpenError, Operation, StoreError, Vault};

/// How long a call may take up to its commit, whatever the database does.
const CALL_LIMIT: Duration = Duration::from_secs(5);
/// How long a commit may take.
const COMMIT_LIMIT: Duration = Duration::from_secs(3);
/// How long to read a whole table, at the start.
const LONG_CALL_LIMIT: Duration = Duration::from_secs(30);

/// A [`Store`](crate::Store) in a PostgreSQL database.
#[derive(Debug)]
pub struct PostgresStore {
    pool: PgPool,
    vault: Vault,
    installation: Installation,
    lock: InstallationLock,
}

impl PostgresStore {
    /// Opens the database at `url` and brings its schema up to date; makes a new installation
    /// where there is none. The database itself must exist.
    ///
    /// Holds an advisory lock until the store is dropped: a second server on the same database
    /// gets [`OpenError::AlreadyInUse`]. May be killed at any point and called again.
    pub async fn open(url: &str, vault: Vault) -> Result<Self, OpenError> {
        open::open(url, vault).await
    }

    /// A transaction that writes, unless another server has the database now. What is not
    /// committed when it is dropped is rolled back.
    async fn begin(&self, operation: Operation) -> Result<Transaction<'static, Postgres>, StoreError> {
        if self.lock.is_superseded() {
            return Err(StoreError::Superseded { operation });
        }
        let mut transaction = self.pool.begin().await.map_err(because(operation))?;
        // Holds off the next server until this transaction has ended.
        let ours = sqlx::query("SELECT 1 FROM core.installation WHERE server_epoch = $1 FOR SHARE")
            .bind(self.lock.epoch())
            .fetch_optional(&mut *transaction)
            .await
            .map_err(because(operation))?;
        match ours {
            Some(_) => Ok(transaction),
            None => {
                self.lock.supersede();
                Err(StoreError::Superseded { operation })
            }
        }
    }
}

impl PostgresStore {
    /// One statement that writes, in a transaction of its own. Returns how many rows changed.
    async fn write(&self, operation: Operation, statement: Statement) -> Result<u64, StoreError> {
        self.write_query(operation, query(statement)).await
    }

    async fn write_query(
        &self,
        operation: Operation,
        query: Query<'static, Postgres, PgArguments>,
    ) -> Result<u64, StoreError> {
        let (transaction, rows) = within(CALL_LIMIT, operation, async {
            let mut transaction = self.begin(operation).await?;
            let done = query.execute(&mut *transaction).await.map_err(because(operation))?;
            Ok::<_, StoreError>((transaction, done.rows_affected()))
        })
        .await?;
        commit(transaction, operation).await?;
        Ok(rows)
    }

    /// The rows that one statement finds.
    async fn read(&self, operation: Operation, statement: Statement) -> Result<Vec<PgRow>, StoreError> {
        within(CALL_LIMIT, operation, async {
            query(statement).fetch_all(&self.pool).await.map_err(because(operation))
        })
        .await
    }
}

/// Gives up on a call that takes too long.
async fn within<T, E: From<StoreError>>(
    limit: Duration,
    operation: Operation,
    call: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let no_answer = |_| StoreError::Unavailable { operation, cause: Box::new(NoAnswer { limit }) };
    tokio::time::timeout(limit, call).await.map_err(no_answer)?
}

/// Commits, or says that it is not known whether it did.
async fn commit(transaction: Transaction<'static, Postgres>, operation: Operation) -> Result<(), StoreError> {
    within(COMMIT_LIMIT, operation, async { transaction.commit().await.map_err(because(operation)) }).await
}

crate::delegation::store_by_own_methods!(PostgresStore);

impl PostgresStore {
    async fn check_health(&self) -> Result<(), StoreError> {
        let operation = Operation::Health;
        if self.lock.is_superseded() {
            return Err(StoreError::Superseded { operation });
        }
        within(CALL_LIMIT, operation, async {
            let row = sqlx::query("SELECT id FROM core.installation").fetch_one(&self.pool).await;
            row.map(drop).map_err(because(operation))
        })
        .await
    }

    async fn close_connections(&self) {
        // A database that does not answer must not keep the server from ending.
        let _ = tokio::time::timeout(CALL_LIMIT, self.pool.close()).await;
        self.lock.release().await;
    }
}
