//! Commands that run in the background.

use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::client::NO_QUERY;
use crate::workspaces::WORKSPACES;
use crate::{Client, ClientError};

/// A background process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Names it in other calls.
    pub process_id: u64,
    /// Its number inside the sandbox.
    pub pid: u32,
    /// What was run.
    pub command: String,
    /// When it was started.
    #[serde(with = "time::serde::rfc3339")]
    pub started_at: OffsetDateTime,
    /// `running` or `exited`.
    pub status: String,
    /// How it ended; `None` while it runs.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<u32>,
    /// Whether the workspace ran out of memory while it ran.
    pub oom_killed: bool,
    /// How much it has printed.
    pub stdout_bytes: u64,
    /// How much it has printed to standard error.
    pub stderr_bytes: u64,
}

/// Background processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessList {
    /// Those that run, and the last ones that have ended.
    pub items: Vec<Process>,
}

/// A page of what a process has printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputPage {
    /// Where it begins, in bytes from the first one ever printed.
    pub offset: u64,
    /// The text.
    pub text: String,
    /// Where to go on.
    pub next_offset: u64,
}

/// A stream of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A background process and what it has printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessWithOutput {
    /// The process.
    #[serde(flatten)]
    pub process: Process,
    /// A page of its standard output.
    pub stdout: OutputPage,
    /// A page of its standard error.
    pub stderr: OutputPage,
}

/// Who got a signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalledProcess {
    /// The process.
    pub process_id: u64,
    /// The signal.
    pub signal: String,
    /// How many processes got it.
    pub delivered: u32,
}

impl Client {
    /// A workspace's background processes.
    pub async fn processes(&self, id: WorkspaceId) -> Result<ProcessList, ClientError> {
        self.get(&format!("{WORKSPACES}/{id}/processes"), &NO_QUERY).await
    }

    /// One background process, with its output from these offsets on.
    pub async fn process(
        &self,
        id: WorkspaceId,
        process_id: u64,
        stdout_offset: u64,
        stderr_offset: u64,
    ) -> Result<ProcessWithOutput, ClientError> {
        let query = [("stdout_offset", stdout_offset), ("stderr_offset", stderr_offset)];
        self.get(&format!("{WORKSPACES}/{id}/processes/{process_id}"), &query).await
    }

    /// Signals a background process with everything it started.
    pub async fn signal_process(
        &self,
        id: WorkspaceId,
        process_id: u64,
        signal: &str,
    ) -> Result<SignalledProcess, ClientError> {
        self.delete(&format!("{WORKSPACES}/{id}/processes/{process_id}"), &[("signal", signal)]).await
    }
}
