//! What is done in a workspace.

use std::time::Duration;

use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::workspaces::WORKSPACES;
use crate::{BashRequest, Client, ClientError, ReadRequest, WriteRequest};

/// How long a command runs at most where a request does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// How much longer than a command's own timeout its answer may take.
const ANSWER_ALLOWANCE: Duration = Duration::from_secs(60);

/// A command that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishedCommand {
    /// What it printed, shortened in the middle where it was much.
    pub stdout: String,
    /// What it printed to standard error.
    pub stderr: String,
    /// 0 is success; 128 + signal when a signal ended it.
    pub exit_code: i32,
    /// How long it ran.
    pub duration_ms: u64,
    /// Whether something is missing.
    pub truncated: bool,
    /// How much it printed.
    pub total_bytes: StreamBytes,
    /// The file in the sandbox that has everything, where something is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_file: Option<String>,
    /// Whether that file, too, ends before the output did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_file_truncated: Option<bool>,
    /// Whether it was killed because its time was up.
    pub timed_out: bool,
    /// Whether the workspace ran out of memory while it ran.
    pub oom_killed: bool,
}

/// Bytes per stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamBytes {
    /// Standard output.
    pub stdout: u64,
    /// Standard error.
    pub stderr: u64,
}

/// A command in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedProcess {
    /// Names it in later calls.
    pub process_id: u64,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ReadAnswer {
    /// A page of text.
    Text {
        /// Lines, each as `N: text`.
        content: String,
        /// How many lines the file has.
        total_lines: u64,
        /// Whether there is more, or a line was cut.
        truncated: bool,
        /// The line to go on with.
        next_offset: Option<u64>,
    },
    /// A folder.
    Directory {
        /// Its entries, sorted, with `/` after folders.
        entries: Vec<String>,
        /// How many it has.
        total_entries: u64,
        /// Whether there are more.
        truncated: bool,
        /// The entry to go on with.
        next_offset: Option<u64>,
    },
    /// A file that is not text.
    Binary {
        /// Its bytes.
        size: u64,
        /// Its media type.
        mime: String,
    },
}

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteAnswer {
    /// Always true.
    pub success: bool,
    /// How much was written.
    pub bytes_written: u64,
    /// Whether the file was not there before.
    pub created: bool,
}

impl Client {
    /// Runs a command to its end. Dropping the returned future kills it.
    pub async fn bash(&self, id: WorkspaceId, request: &BashRequest) -> Result<FinishedCommand, ClientError> {
        let limit = request.timeout_ms.map_or(DEFAULT_TIMEOUT, Duration::from_millis) + ANSWER_ALLOWANCE;
        self.post_long(&format!("{WORKSPACES}/{id}/bash"), request, limit).await
    }

    /// Starts a command that goes on by itself.
    pub async fn bash_in_background(
        &self,
        id: WorkspaceId,
        request: &BashRequest,
    ) -> Result<StartedProcess, ClientError> {
        let mut body = json!(request);
        body["background"] = Value::Bool(true);
        self.post(&format!("{WORKSPACES}/{id}/bash"), &body).await
    }

    /// Reads a file or folder.
    pub async fn read(&self, id: WorkspaceId, request: &ReadRequest) -> Result<ReadAnswer, ClientError> {
        self.post(&format!("{WORKSPACES}/{id}/read"), request).await
    }

    /// Writes a file.
    pub async fn write(&self, id: WorkspaceId, request: &WriteRequest) -> Result<WriteAnswer, ClientError> {
        self.post(&format!("{WORKSPACES}/{id}/write"), request).await
    }

    /// Writes a file whose content need not be text: `content` is it as base64.
    pub async fn write_base64(
        &self,
        id: WorkspaceId,
        file_path: &str,
        content: &str,
    ) -> Result<WriteAnswer, ClientError> {
        let body = json!({ "file_path": file_path, "content_base64": content });
        self.post(&format!("{WORKSPACES}/{id}/write"), &body).await
    }
}
