//! The task that writes the audit log.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use emergent_store::{Store, StoreError};
use tokio::sync::{oneshot, watch};

use super::Audit;
use super::pending::Batch;
use crate::metrics::names;

/// How long an entry waits for others, and how long a call may run before its row says so.
const DELAY: Duration = Duration::from_millis(50);

/// How long one write may take.
const WRITE_LIMIT: Duration = Duration::from_secs(10);

/// How long to wait after a write that failed, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How often old entries are looked for.
const PRUNE_INTERVAL: Duration = Duration::from_secs(600);

/// How many old entries are removed at once, and how long others may write in between.
const PRUNE_STEP: NonZeroU32 = NonZeroU32::new(500).unwrap();
const PRUNE_PAUSE: Duration = Duration::from_millis(50);

/// How long things are remembered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retention {
    /// Entries of the audit log.
    pub(crate) audit: Duration,
    /// Keys of creates.
    pub(crate) idempotency_keys: Duration,
}

/// Marks what the last server was doing when it was killed. Comes before the first write:
/// afterwards there are entries of this server that run.
async fn interrupt_running(store: &dyn Store) {
    let mut pause = FIRST_PAUSE;
    loop {
        match store.interrupt_running_audit().await {
            Ok(0) => return,
            Ok(count) => {
                tracing::warn!(count, "{count} calls were cut off when the last server ended");
                return;
            }
            Err(error) => tracing::warn!(%error, "cannot look for calls that were cut off: {error}"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Writes what is pending, again and again, and the rest when `stop` becomes true. Says through
/// `marked` when what the last server was doing is marked.
pub(crate) async fn write(
    audit: Audit,
    store: Arc<dyn Store>,
    marked: oneshot::Sender<()>,
    mut stop: watch::Receiver<bool>,
) {
    let is_over = tokio::select! {
        () = interrupt_running(store.as_ref()) => false,
        () = stopped(&mut stop) => true,
    };
    // Whoever waited may have given up by now.
    let _ = marked.send(());
    let mut pause = FIRST_PAUSE;
    let mut failed = false;
    while !is_over && !*stop.borrow() {
        tokio::select! {
            () = audit.inner.wake.notified() => tokio::time::sleep(DELAY).await,
            () = stopped(&mut stop) => break,
        }
        while let Some(written) = audit.write_some(store.as_ref()).await {
            match written {
                Ok(()) if failed => {
                    failed = false;
                    pause = FIRST_PAUSE;
                    tracing::info!("the audit log is written again");
                }
                Ok(()) => {}
                Err(reason) => {
                    if !failed {
                        tracing::error!(
                            reason,
                            "the audit log cannot be written: {reason}; entries are kept"
                        );
                    }
                    failed = true;
                    tokio::select! {
                        () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                        () = stopped(&mut stop) => break,
                    }
                }
            }
        }
    }
    audit.write_all(store.as_ref()).await;
}

/// Returns when it is over, also where nobody is left to say so.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

impl Audit {
    /// Writes everything, for the end of the server. Gives up at the first failure.
    async fn write_all(&self, store: &dyn Store) {
        while let Some(written) = self.write_some(store).await {
            if let Err(reason) = written {
                let left = self.with_pending(|pending| pending.len());
                tracing::error!(left, reason, "{left} entries of the audit log are lost: {reason}");
                return;
            }
        }
    }

    /// Writes a batch. `None` where there is nothing to write.
    async fn write_some(&self, store: &dyn Store) -> Option<Result<(), String>> {
        let batch = self.with_pending_quietly(super::Pending::take);
        if batch.is_empty() {
            return None;
        }
        let count = batch.len();
        let (written, left) = write_batch(store, batch).await;
        metrics::counter!(names::AUDIT_WRITTEN).increment((count - left.len()) as u64);
        if !left.is_empty() {
            self.with_pending(|pending| pending.put_back(left));
        }
        Some(written)
    }

    /// Without waking the writer, who is the one that calls.
    fn with_pending_quietly<T>(&self, change: impl FnOnce(&mut super::Pending) -> T) -> T {
        change(&mut self.inner.pending.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// Answers what could not be written and is worth another try.
async fn write_batch(store: &dyn Store, mut batch: Batch) -> (Result<(), String>, Batch) {
    match limited(store.append_audit(&batch.begun)).await {
        Ok(()) => batch.begun.clear(),
        Err(WriteFailure { reason, retryable: true }) => return (Err(reason), batch),
        Err(WriteFailure { reason, retryable: false }) => {
            tracing::error!(reason, "entries of the audit log are refused: {reason}");
            batch.begun = write_singly(store, &batch.begun).await;
            if !batch.begun.is_empty() {
                return (Err(reason), batch);
            }
        }
    }
    match limited(store.finish_audit(&batch.finished)).await {
        Ok(_) => (Ok(()), Batch::default()),
        Err(WriteFailure { reason, retryable: true }) => (Err(reason), batch),
        Err(WriteFailure { reason, retryable: false }) => {
            tracing::error!(reason, count = batch.finished.len(), "ends of calls are lost: {reason}");
            metrics::counter!(names::AUDIT_DROPPED).increment(batch.finished.len() as u64);
            (Ok(()), Batch::default())
        }
    }
}

/// One entry that the database refuses must not take the others with it. Answers those that
/// may still be written.
async fn write_singly(
    store: &dyn Store,
    entries: &[emergent_store::AuditEntry],
) -> Vec<emergent_store::AuditEntry> {
    let mut left = Vec::new();
    for entry in entries {
        match limited(store.append_audit(std::slice::from_ref(entry))).await {
            Ok(()) => {}
            Err(WriteFailure { retryable: true, .. }) => left.push(entry.clone()),
            Err(WriteFailure { retryable: false, reason }) => {
                metrics::counter!(names::AUDIT_DROPPED).increment(1);
                tracing::error!(id = %entry.id, reason, "an entry of the audit log is lost: {reason}");
            }
        }
    }
    left
}

struct WriteFailure {
    reason: String,
    retryable: bool,
}

async fn limited<T>(write: impl Future<Output = Result<T, StoreError>>) -> Result<T, WriteFailure> {
    match tokio::time::timeout(WRITE_LIMIT, write).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => {
            metrics::counter!(names::STORE_ERRORS).increment(1);
            Err(WriteFailure { reason: error.to_string(), retryable: error.is_retryable() })
        }
        Err(_) => Err(WriteFailure { reason: "the database does not answer".to_owned(), retryable: true }),
    }
}

/// Removes what is older than it need be, a little at a time.
pub(crate) async fn prune(store: Arc<dyn Store>, retention: Retention) {
    loop {
        if let Err(error) = prune_now(store.as_ref(), retention).await {
            tracing::warn!(%error, "old entries of the audit log stay for now: {error}");
        }
        tokio::time::sleep(PRUNE_INTERVAL).await;
    }
}

async fn prune_now(store: &dyn Store, retention: Retention) -> Result<(), StoreError> {
    let now = emergent_store::now();
    let mut removed = 0;
    loop {
        let step = store.prune_audit(now - retention.audit, PRUNE_STEP).await?;
        removed += step;
        if step < u64::from(PRUNE_STEP.get()) {
            break;
        }
        tokio::time::sleep(PRUNE_PAUSE).await;
    }
    if removed > 0 {
        tracing::info!(removed, "{removed} old entries of the audit log were removed");
    }
    store.prune_idempotency_keys(now - retention.idempotency_keys).await?;
    Ok(())
}
