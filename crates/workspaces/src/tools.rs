//! Tool calls: what an agent does in its workspace.

use std::sync::Arc;

use bytes::Bytes;
use emergent_agent_client::{
    AgentClient, AgentError, CommandSpec, ExecOptions, ExecOutcome, OutputFollower, Page, ProcessInfo,
    StreamKind, Written,
};
use emergent_types::WorkspaceStatus;

use crate::ToolError;
use crate::actor::Request;
use crate::service::Entry;

/// One tool call, or a few that belong together. While it exists, the workspace is in use
/// and does not expire. Dropping it in the middle of a call cancels the call.
pub struct ToolCall {
    entry: Arc<Entry>,
    client: AgentClient,
}

impl ToolCall {
    pub(crate) fn begin(entry: Arc<Entry>) -> Result<Self, ToolError> {
        let status = entry.view.borrow().status;
        let not_ready = |status| ToolError::NotReady { id: entry.id, status };
        if status != WorkspaceStatus::Ready {
            return Err(not_ready(status));
        }
        // Ready without a client: lost, and its owner is about to look after it.
        let client = entry.presence.agent().ok_or_else(|| {
            entry.tell(Request::AgentLost);
            ToolError::Agent(AgentError::Unreachable {
                reason: "the connection to the sandbox is being restored".to_owned(),
                not_sent: true,
            })
        })?;
        entry.presence.activity.begin();
        Ok(Self { entry, client })
    }

    /// Passes an answer on, and tells the owner of what it must know.
    fn checked<T>(&self, result: Result<T, AgentError>) -> Result<T, ToolError> {
        result.map_err(|error| {
            if matches!(error, AgentError::Unreachable { .. } | AgentError::Refused { .. }) {
                tracing::warn!(workspace = %self.entry.id, %error, "agent of workspace {}: {error}", self.entry.id);
                self.entry.tell(Request::AgentLost);
            }
            ToolError::Agent(error)
        })
    }

    /// Runs a command to its end.
    pub async fn exec(&self, command: &CommandSpec, options: ExecOptions) -> Result<ExecOutcome, ToolError> {
        let outcome = self.checked(self.client.exec(command, options).await)?;
        if outcome.exit.oom_killed {
            let id = self.entry.id;
            tracing::warn!(workspace = %id, event = "oom_killed", "workspace {id} reached its memory limit");
            self.entry.tell(Request::Warn(
                "a process was killed because the workspace reached its memory limit".to_owned(),
            ));
        }
        Ok(outcome)
    }

    /// Starts a command that goes on by itself.
    pub async fn start_process(&self, command: &CommandSpec) -> Result<u64, ToolError> {
        self.checked(self.client.start_process(command).await)
    }

    /// The background processes that are remembered.
    pub async fn list_processes(&self) -> Result<Vec<ProcessInfo>, ToolError> {
        self.checked(self.client.list_processes().await)
    }

    /// What a background process printed.
    pub async fn process_output(
        &self,
        process_id: u64,
        stream: StreamKind,
        offset: u64,
        follow: bool,
    ) -> Result<OutputFollower, ToolError> {
        self.checked(self.client.process_output(process_id, stream, offset, follow).await)
    }

    /// Signals a background process with everything it started.
    pub async fn signal_process(&self, process_id: u64, signal: u32) -> Result<u32, ToolError> {
        self.checked(self.client.signal_process(process_id, signal).await)
    }

    /// Reads a page of a file or a folder.
    pub async fn read_page(&self, path: &str, offset: u64, limit: u64) -> Result<Page, ToolError> {
        self.checked(self.client.read_page(path, offset, limit).await)
    }

    /// Replaces a file.
    pub async fn write_file(&self, path: &str, content: Bytes) -> Result<Written, ToolError> {
        self.checked(self.client.write_file(path, content).await)
    }
}

impl Drop for ToolCall {
    fn drop(&mut self) {
        self.entry.presence.activity.end();
    }
}
