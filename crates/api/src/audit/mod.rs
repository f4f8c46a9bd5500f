//! What was done, by whom, and what came of it. Never contents, output or secrets.
//!
//! ```text
//!   call begins ─► pending ──100 ms──► one write of many rows ─► database
//!   call ends   ─►    │
//!                     └ a call that ends before is one row; one that goes on is a row that says
//!                       `running`, and later a change of it
//! ```
//!
//! A call waits for no database. A server that is killed leaves rows that say `running`; the
//! next start turns them into `interrupted`. While the database is away, entries are kept, as
//! many as there is room for; what does not fit is counted and the log says so.

pub(crate) mod list;
mod operation;
mod pending;
mod record;
mod secret_names;
mod secrets;
mod summary;
mod token_shapes;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use emergent_store::{AuditEntry, AuditFinish, AuditOutcome, TokenId};
use emergent_types::WorkspaceId;
use tokio::sync::Notify;
use uuid::Uuid;

use self::pending::Pending;
pub(crate) use operation::Operation;
pub(crate) use record::Record;
pub(crate) use summary::Summary;
pub(crate) use writer::{Retention, prune, write};

use crate::errors::ErrorCode;
use crate::metrics::names;

/// A call that begins.
pub(crate) struct Call {
    /// The tool or the operation.
    pub(crate) tool: &'static str,
    /// The workspace it is for.
    pub(crate) workspace: Option<WorkspaceId>,
    /// The session that works in it.
    pub(crate) session: Option<Uuid>,
    /// Who calls.
    pub(crate) caller: TokenId,
    /// The request's id, as in the logs and in the answer.
    pub(crate) request_id: String,
    /// What is worth knowing about it.
    pub(crate) summary: Summary,
}

/// What came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Ok,
    Error(ErrorCode),
    Cancelled,
}

impl Ending {
    fn outcome(self) -> AuditOutcome {
        match self {
            Self::Ok => AuditOutcome::Ok,
            Self::Error(_) => AuditOutcome::Error,
            Self::Cancelled => AuditOutcome::Cancelled,
        }
    }

    fn error_code(self) -> Option<String> {
        match self {
            Self::Error(code) => Some(code.as_str().to_owned()),
            Self::Ok | Self::Cancelled => None,
        }
    }
}

/// The audit log, as endpoints see it. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Audit {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    pending: Mutex<Pending>,
    wake: Notify,
}

impl Audit {
    /// Writes down that a call begins. Waits for nothing: a task writes to the database.
    pub(crate) fn begin(&self, call: Call) -> Record {
        let id = Uuid::now_v7();
        self.with_pending(|pending| {
            pending.begin(AuditEntry {
                id,
                at: emergent_store::now(),
                tool: call.tool.to_owned(),
                workspace_id: call.workspace,
                session_id: call.session,
                caller: Some(call.caller),
                request_id: call.request_id,
                duration_ms: None,
                outcome: AuditOutcome::Running,
                error_code: None,
                summary: call.summary.into_map(),
            });
        });
        Record::new(self.clone(), call.tool, id)
    }

    fn finish(
        &self,
        id: Uuid,
        tool: &'static str,
        duration: Duration,
        ending: Ending,
        workspace_id: Option<WorkspaceId>,
    ) {
        let outcome = ending.outcome();
        metrics::counter!(names::TOOL_CALLS, "tool" => tool, "outcome" => outcome.as_str()).increment(1);
        metrics::histogram!(names::TOOL_CALL_SECONDS, "tool" => tool).record(duration.as_secs_f64());
        let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let error_code = ending.error_code();
        self.with_pending(|pending| {
            let summary = None;
            pending.finish(AuditFinish { id, duration_ms, outcome, error_code, summary, workspace_id });
        });
    }

    fn with_pending<T>(&self, change: impl FnOnce(&mut Pending) -> T) -> T {
        let mut pending = self.inner.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut pending);
        metrics::gauge!(names::AUDIT_QUEUE).set(pending.len() as f64);
        let dropped = pending.take_dropped();
        drop(pending);
        if dropped > 0 {
            metrics::counter!(names::AUDIT_DROPPED).increment(dropped);
            tracing::error!(
                dropped,
                "{dropped} entries of the audit log are lost: too many wait to be written"
            );
        }
        self.inner.wake.notify_one();
        changed
    }
}
