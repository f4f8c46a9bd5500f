//! Replacing a string in a file.

use std::time::Duration;

use emergent_protocol::v1;

use crate::{AgentClient, AgentError};

/// How long an edit may take; files may be large, and edits of one file wait for each other. The
/// agent stops working on one that is given up.
const EDIT_LIMIT: Duration = Duration::from_secs(120);

/// More than an agent of ours sends.
const MAX_DIFF_BYTES: usize = 1 << 20;

/// What to replace by what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EditSpec {
    /// The file.
    pub path: String,
    /// The text that is there; empty creates the file.
    pub old_string: String,
    /// The text that is to be there.
    pub new_string: String,
    /// Every place, not the only one.
    pub replace_all: bool,
    /// Where nothing matches exactly, lines that differ in trailing blanks or indentation match.
    pub fuzzy: bool,
}

/// How the text was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchRule {
    /// As it was given.
    Exact,
    /// Lines equal but for blanks at their ends.
    TrailingBlanks,
    /// Lines equal but for blanks at their ends and beginnings.
    Indentation,
}

impl MatchRule {
    /// The rule as the API names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::TrailingBlanks => "trailing_blanks",
            Self::Indentation => "indentation",
        }
    }
}

/// What an edit did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// Lines that were changed, added or removed.
    pub lines_changed: u64,
    /// Places that were replaced.
    pub replacements: u64,
    /// A unified diff.
    pub diff: String,
    /// The diff was cut.
    pub diff_truncated: bool,
    /// How the text was found.
    pub rule: MatchRule,
    /// The file was not there before.
    pub created: bool,
}

impl AgentClient {
    /// Replaces a string in a file, atomically. Any failure leaves the old content.
    pub async fn edit(&self, spec: &EditSpec) -> Result<Edited, AgentError> {
        let mode = if spec.fuzzy { v1::EditMode::Fuzzy } else { v1::EditMode::Unspecified };
        let request = v1::EditRequest {
            path: spec.path.clone(),
            old_string: spec.old_string.clone(),
            new_string: spec.new_string.clone(),
            replace_all: spec.replace_all,
            mode: mode.into(),
        };
        let answer = self
            .call("edit", EDIT_LIMIT, |mut stub| {
                let request = request.clone();
                async move { stub.edit(request).await }
            })
            .await?;
        if answer.diff.len() > MAX_DIFF_BYTES {
            return Err(AgentError::malformed("edit", format!("a diff of {} bytes", answer.diff.len())));
        }
        let rule = match answer.rule() {
            v1::MatchRule::Exact => MatchRule::Exact,
            v1::MatchRule::TrailingBlanks if spec.fuzzy => MatchRule::TrailingBlanks,
            v1::MatchRule::Indentation if spec.fuzzy => MatchRule::Indentation,
            rule => return Err(AgentError::malformed("edit", format!("matched by {rule:?}"))),
        };
        Ok(Edited {
            lines_changed: answer.lines_changed,
            replacements: answer.replacements,
            diff: answer.diff,
            diff_truncated: answer.diff_truncated,
            rule,
            created: answer.created,
        })
    }
}
