//! One call, while it runs.

use std::time::{Duration, Instant};

use emergent_types::WorkspaceId;

use super::{Audit, Ending};
use crate::errors::{ApiError, ErrorCode};

/// One call, while it runs. Dropped without [`end`](Self::end), it was cancelled: whoever asked
/// has gone away, or their token ended.
pub(crate) struct Record {
    audit: Audit,
    tool: &'static str,
    id: uuid::Uuid,
    started: Instant,
    /// Known at the end only.
    workspace: Option<WorkspaceId>,
    ended: bool,
}

impl Record {
    pub(super) fn new(audit: Audit, tool: &'static str, id: uuid::Uuid) -> Self {
        Self { audit, tool, id, started: Instant::now(), workspace: None, ended: false }
    }

    /// Notes which workspace it was about, where that was not known when it began.
    pub(crate) fn about(&mut self, workspace: WorkspaceId) {
        self.workspace = Some(workspace);
    }

    /// Notes what came of it, and passes it on.
    pub(crate) fn end<T>(mut self, result: Result<T, ApiError>) -> Result<T, ApiError> {
        match &result {
            Ok(_) => self.note(Ending::Ok),
            Err(error) => self.note(Ending::Error(error.code())),
        }
        result
    }

    /// Notes that it did what was asked, or why not.
    pub(crate) fn ended(mut self, failure: Option<ErrorCode>) {
        self.note(failure.map_or(Ending::Ok, Ending::Error));
    }

    /// The same for what was over before it was written down, and took so long.
    pub(crate) fn took(mut self, duration: Duration, ending: Ending) {
        self.ended = true;
        self.audit.finish(self.id, self.tool, duration, ending, self.workspace);
    }

    fn note(&mut self, ending: Ending) {
        self.ended = true;
        self.audit.finish(self.id, self.tool, self.started.elapsed(), ending, self.workspace);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.ended {
            self.note(Ending::Cancelled);
        }
    }
}
