//! Which session works in a workspace, and which ones did.

use emergent_types::WorkspaceId;
use time::OffsetDateTime;
use uuid::Uuid;

/// A session's time in a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attachment {
    /// Where.
    pub workspace_id: WorkspaceId,
    /// Who.
    pub session_id: Uuid,
    /// Since when.
    pub attached_at: OffsetDateTime,
    /// Until when; `None` for the one that is there now.
    pub detached_at: Option<OffsetDateTime>,
}
