//! What was done.

use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::{Client, ClientError};

/// Which entries.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ListAudit {
    /// Only those about this workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    /// Only those of this tool or operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Only those that ended like this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// How many at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A call, as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Names it.
    pub id: String,
    /// When it began.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// The tool or the operation.
    pub tool: String,
    /// The workspace it was for.
    pub workspace_id: Option<WorkspaceId>,
    /// The agent session it was part of.
    pub session_id: Option<String>,
    /// The token it was made with.
    pub caller: Option<String>,
    /// The `x-request-id` of its answer.
    pub request_id: String,
    /// How long it took; `None` while it runs.
    pub duration_ms: Option<u64>,
    /// `running`, `ok`, `error`, `cancelled` or `interrupted`.
    pub outcome: String,
    /// The code of its error.
    pub error_code: Option<String>,
    /// What was asked for, in short.
    pub summary: Map<String, Value>,
}

/// A page of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditList {
    /// Newest first.
    pub items: Vec<AuditEntry>,
    /// Asks for the next page.
    pub next_cursor: Option<String>,
}

impl Client {
    /// A page of what was done, newest first.
    pub async fn audit(&self, request: &ListAudit) -> Result<AuditList, ClientError> {
        self.get("/api/v1/audit", request).await
    }
}
