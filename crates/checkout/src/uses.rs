//! Each use of a repository, in the audit log. Nobody waits for the database: entries are written beside what they
//! are about, many at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use emergent_store::{AuditEntry, AuditOutcome, Store, WorkspaceRow};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use tokio::sync::mpsc;
use uuid::Uuid;

/// Entries that wait to be written. More than this are only logged.
const QUEUED: usize = 1024;

/// Entries that are written at once.
const BATCH: usize = 100;

/// How long an entry that could not be written waits.
const PAUSE: Duration = Duration::from_secs(1);

/// How often it is tried.
const TRIES: u32 = 30;

/// Where uses are written down.
#[derive(Clone)]
pub(crate) struct Uses(mpsc::Sender<AuditEntry>);

impl Uses {
    /// Writes uses down for as long as somebody holds this.
    pub(crate) fn start(store: Arc<dyn Store>) -> Self {
        let (sender, mut entries) = mpsc::channel(QUEUED);
        tokio::spawn(async move {
            let mut batch = Vec::new();
            while entries.recv_many(&mut batch, BATCH).await > 0 {
                for _ in 0..TRIES {
                    match store.append_audit(&batch).await {
                        Ok(()) => break,
                        Err(error) if error.is_retryable() => tokio::time::sleep(PAUSE).await,
                        Err(error) => {
                            tracing::error!(%error, "uses of repositories were not written down: {error}");
                            break;
                        }
                    }
                }
                batch.clear();
            }
        });
        Self(sender)
    }

    /// A use begins.
    pub(crate) fn begin(&self, tool: &'static str, workspace: &WorkspaceRow, repository: String) -> Use {
        Use {
            uses: self.clone(),
            started: Instant::now(),
            entry: Some(AuditEntry {
                id: Uuid::now_v7(),
                at: OffsetDateTime::now_utc(),
                tool: tool.to_owned(),
                workspace_id: Some(workspace.id),
                session_id: workspace.agent_session_id,
                caller: workspace.owner_id,
                request_id: String::new(),
                duration_ms: None,
                outcome: AuditOutcome::Cancelled,
                error_code: None,
                summary: Map::from_iter([("repository".to_owned(), Value::from(repository))]),
            }),
        }
    }
}

/// A use that goes on. Dropped, it was broken off.
pub(crate) struct Use {
    uses: Uses,
    started: Instant,
    entry: Option<AuditEntry>,
}

impl Use {
    /// Says more about it.
    pub(crate) fn note(&mut self, name: &str, value: impl Into<Value>) {
        if let Some(entry) = &mut self.entry {
            entry.summary.insert(name.to_owned(), value.into());
        }
    }

    /// It did what was asked, or not.
    pub(crate) fn end(mut self, error_code: Option<&str>) {
        if let Some(entry) = &mut self.entry {
            entry.outcome = if error_code.is_some() { AuditOutcome::Error } else { AuditOutcome::Ok };
            entry.error_code = error_code.map(str::to_owned);
        }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let Some(mut entry) = self.entry.take() else { return };
        entry.duration_ms = Some(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX));
        if let Err(error) = self.uses.0.try_send(entry) {
            let (mpsc::error::TrySendError::Full(entry) | mpsc::error::TrySendError::Closed(entry)) = error;
            let told = json!({ "tool": entry.tool, "summary": entry.summary });
            tracing::warn!(workspace = ?entry.workspace_id, "a use of a repository is only in this log: {told}");
        }
    }
}
