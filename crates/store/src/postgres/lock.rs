//! One server per database.
//!
//! ```text
//!            session breaks                      back, and nobody came in between
//!   held ──────────────────────► lost ──────────────────────────────────────────► held
//!                                 │  another server has been or is there
//!                                 └───────────────────────────────────► superseded (for good)
//! ```
//!
//! The lock is an advisory lock of a session that does nothing else. It keeps a second server
//! from starting while this one lives, and ends with the process, however that ends. A session
//! can also break while the process lives on; whoever starts in that moment gets the lock.
//! Therefore every server has a number, `server_epoch`, one higher than that of the one before,
//! and every write looks in its own transaction whether the number is still its own. So a lost
//! lock is no danger while it is lost: it is only taken again. A number that has gone up means
//! that another server has changed what this one believes to know: it must not write again
//! before it has been restarted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::{Connection, PgConnection, Row};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::connection::Target;
use super::failure::open_error;
use crate::OpenError;

/// `'EMWS'`: tells our advisory locks from those of other programs in the same database.
const SPACE: i32 = 0x454D_5753;
/// The server's lock, held by its session.
const SERVER: i32 = 1;
/// Held while places are counted and taken.
pub(super) const PLACES: i32 = 2;
/// Held while tokens are made with others, or revoked.
pub(super) const TOKENS: i32 = 3;

/// How often the session is asked whether it is still there.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long it may take to answer.
const CHECK_LIMIT: Duration = Duration::from_secs(3);
/// How long to wait before another attempt to come back.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// How long a server that has just ended may take to let go.
const HANDOVER_LIMIT: Duration = Duration::from_secs(3);

/// Takes a lock that ends with the transaction.
pub(super) async fn lock_in_transaction(connection: &mut PgConnection, lock: i32) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT pg_advisory_xact_lock($1, $2)")
        .bind(SPACE)
        .bind(lock)
        .execute(connection)
        .await
        .map(drop)
}

/// Takes the server's lock for this session.
pub(super) async fn acquire(database: &str, connection: &mut PgConnection) -> Result<(), OpenError> {
    let failed = |error| open_error(database, error);
    let deadline = Instant::now() + HANDOVER_LIMIT;
    while !try_lock(connection).await.map_err(failed)? {
        if Instant::now() >= deadline {
            let holder = holder(connection).await.map_err(failed)?;
            return Err(OpenError::AlreadyInUse { database: database.to_owned(), holder });
        }
        sleep(RETRY_INTERVAL).await;
    }
    Ok(())
}

async fn try_lock(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("SELECT pg_try_advisory_lock($1, $2)")
        .bind(SPACE)
        .bind(SERVER)
        .fetch_one(connection)
        .await
}

/// Who has the server's lock, in words.
async fn holder(connection: &mut PgConnection) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar(
        "SELECT format('%s (session %s%s)', coalesce(nullif(application_name, ''), 'a program without a name'),
                       lock.pid, coalesce(' from ' || host(client_addr), ''))
         FROM pg_locks AS lock JOIN pg_stat_activity AS activity USING (pid)
         WHERE locktype = 'advisory' AND granted AND classid = $1::bigint::oid AND objid = $2::bigint::oid
           AND lock.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         LIMIT 1",
    )
    .bind(i64::from(SPACE))
    .bind(i64::from(SERVER))
    .fetch_optional(connection)
    .await
}

async fn current_epoch(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let row = sqlx::query("SELECT server_epoch FROM core.installation").fetch_one(connection).await?;
    row.try_get("server_epoch")
}

/// The server's lock and number, for as long as it lives.
#[derive(Debug)]
pub(super) struct InstallationLock {
    epoch: i64,
    shared: Arc<Shared>,
    keeper: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    superseded: AtomicBool,
    /// Asks the keeper to let go.
    release: Notify,
    /// Says that it has.
    released: Notify,
}

impl Shared {
    fn supersede(&self) {
        if !self.superseded.swap(true, Ordering::AcqRel) {
            tracing::error!(
                "another server has taken over the database while this one had lost its lock: \
                 nothing is written any more; end one of the two, and restart this one if it is to stay"
            );
        }
    }
}

impl InstallationLock {
    /// Keeps the lock that `connection` holds, as the server with this number.
    pub(super) fn keep(target: Target, connection: PgConnection, epoch: i64) -> Self {
        let shared = Arc::new(Shared::default());
        let keeper = Keeper { target, epoch, shared: Arc::clone(&shared) };
        Self { epoch, shared, keeper: tokio::spawn(keeper.run(connection)) }
    }

    /// This server's number.
    pub(super) fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Whether another server has come after this one.
    pub(super) fn is_superseded(&self) -> bool {
        self.shared.superseded.load(Ordering::Acquire)
    }

    /// Somebody has noticed that another server has come.
    pub(super) fn supersede(&self) {
        self.shared.supersede();
    }

    /// Lets go, so that the next server need not wait.
    pub(super) async fn release(&self) {
        if self.keeper.is_finished() {
            return;
        }
        let released = self.shared.released.notified();
        self.shared.release.notify_one();
        let _ = timeout(CHECK_LIMIT, released).await;
    }
}

impl Drop for InstallationLock {
    fn drop(&mut self) {
        // The connection goes with its task, and the lock with the connection.
        self.keeper.abort();
    }
}

struct Keeper {
    target: Target,
    epoch: i64,
    shared: Arc<Shared>,
}

impl Keeper {
    async fn run(self, connection: PgConnection) {
        let shared = Arc::clone(&self.shared);
        tokio::select! {
            () = self.hold(connection) => {}
            () = shared.release.notified() => {}
        }
        shared.released.notify_one();
    }

    async fn hold(self, mut connection: PgConnection) {
        loop {
            let error = self.watch(&mut connection).await;
            tracing::warn!(%error, "the database is away: {error}");
            // The server may not know yet that this session has ended.
            let _ = timeout(CHECK_LIMIT, connection.close_hard()).await;
            let begun = Instant::now();
            connection = match self.come_back().await {
                Some(connection) => connection,
                None => return,
            };
            let away_ms = begun.elapsed().as_millis();
            tracing::info!(away_ms, "the database is back, and the lock is held again");
        }
    }

    /// Returns when the session is lost.
    async fn watch(&self, connection: &mut PgConnection) -> sqlx::Error {
        loop {
            sleep(CHECK_INTERVAL).await;
            match timeout(CHECK_LIMIT, connection.ping()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return error,
                Err(_) => return sqlx::Error::PoolTimedOut,
            }
        }
    }

    /// A session that has the lock again; `None` when another server has come.
    async fn come_back(&self) -> Option<PgConnection> {
        let mut contested = false;
        loop {
            if let Ok(Ok(mut connection)) = timeout(CHECK_LIMIT, self.target.connect()).await {
                let attempt = timeout(CHECK_LIMIT, self.try_again(&mut connection)).await;
                match attempt {
                    Ok(Ok(Attempt::Locked)) => return Some(connection),
                    Ok(Ok(Attempt::Superseded)) => {
                        self.shared.supersede();
                        return None;
                    }
                    Ok(Ok(Attempt::Taken { holder })) if !contested => {
                        contested = true;
                        tracing::error!("the lock of the database is held by {holder}");
                    }
                    // Not quite back.
                    Ok(Ok(Attempt::Taken { .. }) | Err(_)) | Err(_) => {}
                }
                let _ = timeout(CHECK_LIMIT, connection.close()).await;
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    async fn try_again(&self, connection: &mut PgConnection) -> Result<Attempt, sqlx::Error> {
        let locked = try_lock(connection).await?;
        // Looked at with the lock in hand: nobody can come in between.
        if current_epoch(connection).await? != self.epoch {
            return Ok(Attempt::Superseded);
        }
        if locked {
            return Ok(Attempt::Locked);
        }
        // Either this server's own session, which the database still believes alive, or
        // another server that has not got far enough to count itself.
        let holder = holder(connection).await?.unwrap_or_else(|| "somebody".to_owned());
        Ok(Attempt::Taken { holder })
    }
}

/// What came of an attempt to take the lock again.
enum Attempt {
    Locked,
    Taken { holder: String },
    Superseded,
}
