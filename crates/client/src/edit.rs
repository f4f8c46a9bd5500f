//! Replacing a text in a file.

use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};

use crate::workspaces::WORKSPACES;
use crate::{Client, ClientError};

/// A text to replace.
#[derive(Debug, Clone, Default, Serialize)]
pub struct EditRequest {
    /// Relative paths start at `/workspace`.
    pub file_path: String,
    /// The text that is there; where it is empty, the file is created.
    pub old_string: String,
    /// The text that is to be there.
    pub new_string: String,
    /// Whether to replace it everywhere.
    pub replace_all: bool,
    /// How the text is looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<EditMode>,
}

/// How a text is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EditMode {
    /// As it is given.
    Exact,
    /// Where it is not there as it is given, blanks may differ.
    Fuzzy,
}

/// What an edit did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditAnswer {
    /// Always true.
    pub success: bool,
    /// Lines that were changed, added or removed.
    pub lines_changed: u64,
    /// How many times the text was replaced.
    pub replacements: u64,
    /// What changed, as a unified diff.
    pub diff: String,
    /// Whether the diff was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub diff_truncated: bool,
    /// Whether the file was not there before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub created: bool,
    /// In fuzzy mode, how the text was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

impl Client {
    /// Replaces a text in a file.
    pub async fn edit(&self, id: WorkspaceId, request: &EditRequest) -> Result<EditAnswer, ClientError> {
        self.post(&format!("{WORKSPACES}/{id}/edit"), request).await
    }
}
