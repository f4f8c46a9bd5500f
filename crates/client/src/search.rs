//! Finding files, and lines in them.

use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};

use crate::workspaces::WORKSPACES;
use crate::{Client, ClientError};

/// Files to find.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GlobRequest {
    /// What their paths look like.
    pub pattern: String,
    /// The folder to look in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How many at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Also what `.gitignore` leaves out, and `.git`.
    pub include_ignored: bool,
}

/// Files that were found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GlobAnswer {
    /// Absolute paths, newest first.
    pub files: Vec<String>,
    /// Whether there are more.
    pub truncated: bool,
}

/// Lines to find.
#[derive(Debug, Clone, Default, Serialize)]
pub struct GrepRequest {
    /// A regular expression.
    pub pattern: String,
    /// The folder or the file to look in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Only in files whose path looks like this glob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include: Option<String>,
    /// How many matches, or files, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Upper and lower case are the same.
    pub case_insensitive: bool,
    /// Lines of context before and after each match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u32>,
    /// A match may span lines.
    pub multiline: bool,
    /// What to answer with.
    pub output_mode: GrepOutputMode,
    /// Also what `.gitignore` leaves out, and `.git`.
    pub include_ignored: bool,
}

/// What a search answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GrepOutputMode {
    /// Lines.
    #[default]
    Content,
    /// Files that have such lines.
    Files,
    /// Files, and how many such lines each has.
    Count,
}

/// What was found. The list that belongs to the mode is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrepAnswer {
    /// Lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<Vec<GrepMatch>>,
    /// Absolute paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
    /// How many lines of each file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Vec<GrepCount>>,
    /// Whether there is more.
    pub truncated: bool,
}

/// A line that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrepMatch {
    /// Its file.
    pub file: String,
    /// Its number, counted from 1.
    pub line: u64,
    /// The line.
    pub text: String,
    /// Lines before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// Lines after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// How many lines of a file were found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrepCount {
    /// The file.
    pub file: String,
    /// The lines.
    pub count: u64,
}

impl Client {
    /// Finds files by their path.
    pub async fn glob(&self, id: WorkspaceId, request: &GlobRequest) -> Result<GlobAnswer, ClientError> {
        self.post(&format!("{WORKSPACES}/{id}/glob"), request).await
    }

    /// Finds lines that match.
    pub async fn grep(&self, id: WorkspaceId, request: &GrepRequest) -> Result<GrepAnswer, ClientError> {
        self.post(&format!("{WORKSPACES}/{id}/grep"), request).await
    }
}
