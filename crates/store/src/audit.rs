//! What was done, by whom, and what came of it.

use std::fmt;
use std::str::FromStr;

use emergent_types::WorkspaceId;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::clock::{from_millis, to_millis};
use crate::{Page, ParseCursorError, TokenId};

/// What came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuditOutcome {
    /// It has not ended yet.
    Running,
    /// It did what was asked.
    Ok,
    /// It did not.
    Error,
    /// Whoever asked went away, or took it back.
    Cancelled,
    /// The server ended in the middle of it.
    Interrupted,
}

/// An outcome that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown outcome {given:?}")]
pub struct UnknownAuditOutcome {
    given: String,
}

impl AuditOutcome {
    /// Every outcome.
    pub const ALL: [Self; 5] = [Self::Running, Self::Ok, Self::Error, Self::Cancelled, Self::Interrupted];

    /// The outcome's name on the wire and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }
}

impl fmt::Display for AuditOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AuditOutcome {
    type Err = UnknownAuditOutcome;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|outcome| outcome.as_str() == text)
            .ok_or_else(|| UnknownAuditOutcome { given: text.chars().take(64).collect() })
    }
}

/// One call, as it is remembered. It refers to workspaces and tokens by id only and outlives
/// them.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    /// Names it. Version 7, made when the call began.
    pub id: Uuid,
    /// When the call began.
    pub at: OffsetDateTime,
    /// The tool or the operation.
    pub tool: String,
    /// The workspace it was for.
    pub workspace_id: Option<WorkspaceId>,
    /// The agent session it was part of.
    pub session_id: Option<Uuid>,
    /// The token it was made with.
    pub caller: Option<TokenId>,
    /// The request's id, as in the logs and in the answer.
    pub request_id: String,
    /// How long it took; `None` while it runs.
    pub duration_ms: Option<u64>,
    /// What came of it.
    pub outcome: AuditOutcome,
    /// The error's code, where there was one.
    pub error_code: Option<String>,
    /// What is worth knowing about the call. Never a secret.
    pub summary: Map<String, Value>,
}

/// The end of a call that was written down when it began.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditFinish {
    /// The entry.
    pub id: Uuid,
    /// How long it took.
    pub duration_ms: u64,
    /// What came of it.
    pub outcome: AuditOutcome,
    /// The error's code, where there was one.
    pub error_code: Option<String>,
    /// A summary that takes the place of the first one; `None` leaves that as it is.
    pub summary: Option<Map<String, Value>>,
    /// The workspace it was about, where that was not known when it began.
    pub workspace_id: Option<WorkspaceId>,
}

/// Which entries to list. What is `None` does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// About this workspace.
    pub workspace_id: Option<WorkspaceId>,
    /// Made with this token.
    pub caller: Option<TokenId>,
    /// Of this tool or operation.
    pub tool: Option<String>,
    /// With this outcome.
    pub outcome: Option<AuditOutcome>,
    /// Begun at this time or later.
    pub since: Option<OffsetDateTime>,
    /// Begun before this time.
    pub until: Option<OffsetDateTime>,
}

/// Where a page of entries ended: the time and the id of its last one. Clients treat it as
/// opaque.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditCursor {
    millis: i64,
    id: Uuid,
}

impl AuditCursor {
    /// A cursor behind this entry.
    pub fn after(entry: &AuditEntry) -> Self {
        Self { millis: to_millis(entry.at), id: entry.id }
    }

    pub(crate) fn at(&self) -> OffsetDateTime {
        // Checked when it was made.
        from_millis(self.millis).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    pub(crate) fn id(&self) -> Uuid {
        self.id
    }
}

impl fmt::Display for AuditCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.millis, self.id.simple())
    }
}

impl FromStr for AuditCursor {
    type Err = ParseCursorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (millis, id) = text.split_once('.').ok_or(ParseCursorError)?;
        let cursor = Self {
            millis: millis.parse().map_err(|_| ParseCursorError)?,
            id: Uuid::try_parse(id).map_err(|_| ParseCursorError)?,
        };
        from_millis(cursor.millis).map_err(|_| ParseCursorError)?;
        // One spelling per cursor, so that what is not ours is refused.
        if cursor.to_string() == text { Ok(cursor) } else { Err(ParseCursorError) }
    }
}

/// One page of entries.
pub type AuditPage = Page<AuditEntry, AuditCursor>;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// For a store that has been made to refuse entries of the tool `refused`.
    pub(crate) async fn all_are_written_or_none(store: &dyn crate::Store) {
        let entry = |tool: &str| AuditEntry {
            id: Uuid::now_v7(),
            at: crate::now(),
            tool: tool.to_owned(),
            workspace_id: None,
            session_id: None,
            caller: None,
            request_id: String::new(),
            duration_ms: None,
            outcome: AuditOutcome::Running,
            error_code: None,
            summary: Map::new(),
        };
        let many: Vec<_> = (0..1200).map(|_| entry("read")).chain([entry("refused")]).collect();
        assert!(store.append_audit(&many).await.is_err());
        let one = std::num::NonZeroU32::MIN;
        assert_eq!(store.list_audit(&AuditFilter::default(), None, one).await.unwrap().items, []);
    }

    proptest! {
        #[test]
        fn a_cursor_survives_its_text(millis in -62_000_000_000_000_i64..253_000_000_000_000, id: u128) {
            let cursor = AuditCursor { millis, id: Uuid::from_u128(id) };
            prop_assert_eq!(cursor.to_string().parse(), Ok(cursor));
            prop_assert_eq!(to_millis(cursor.at()), millis);
        }

        #[test]
        fn no_text_breaks_a_cursor(text in "\\PC{0,60}|[-+0-9]{0,22}\\.[0-9a-fA-F-]{0,38}") {
            if let Ok(cursor) = text.parse::<AuditCursor>() {
                prop_assert_eq!(cursor.to_string(), text);
            }
        }
    }

    #[test]
    fn an_instant_that_does_not_exist_is_refused() {
        let id = Uuid::nil().simple().to_string();
        for millis in [i64::MAX, i64::MIN, 300_000_000_000_000] {
            assert_eq!(format!("{millis}.{id}").parse::<AuditCursor>(), Err(ParseCursorError));
        }
    }
}
