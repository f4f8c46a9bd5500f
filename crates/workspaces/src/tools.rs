//! Tool calls: what an agent does in its workspace.

use std::sync::Arc;

use bytes::Bytes;
use emergent_agent_client::{
    AgentClient, AgentError, Broker, CommandSpec, EditSpec, Edited, ExecEvent, ExecOptions, ExecOutcome,
    ExecStream, GitAction, GitAnswer, GlobSpec, Globbed, GrepSpec, Grepped, OutputFollower, Page,
    ProcessInfo, StreamKind, Written,
};
use emergent_store::Repository;
use emergent_types::WorkspaceStatus;
use tokio::sync::oneshot;

use crate::ToolError;
use crate::actor::Request;
use crate::disk_watch::{self, Room};
use crate::service::Entry;

/// One tool call, or a few that belong together. While it exists, the workspace is in use
/// and does not expire. Dropping it in the middle of a call cancels the call.
pub struct ToolCall {
    entry: Arc<Entry>,
    pub(crate) client: AgentClient,
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
        if !entry.presence.activity.begin() {
            return Err(not_ready(WorkspaceStatus::Destroying));
        }
        Ok(Self { entry, client })
    }

    /// Lets the sandbox go on where it stands still.
    pub(crate) async fn wake(&self) -> Result<(), ToolError> {
        if !self.entry.presence.resting.is_so() {
            return Ok(());
        }
        let (reply, woken) = oneshot::channel();
        if self.entry.ask(Request::Wake(reply)).await.is_ok() && woken.await.is_ok() {
            return Ok(());
        }
        // Its owner is about something else: it is being stopped, or removed.
        match self.entry.status() {
            WorkspaceStatus::Ready => Ok(()),
            status => Err(ToolError::NotReady { id: self.entry.id, status }),
        }
    }

    /// Passes an answer on, and tells the owner of what it must know.
    pub(crate) fn checked<T>(&self, result: Result<T, AgentError>) -> Result<T, ToolError> {
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
        self.note_outcome(&outcome);
        Ok(outcome)
    }

    /// Runs a command and gives its output while it comes. The workspace is in use until the
    /// command is dropped, which also ends it.
    pub async fn exec_stream(
        self,
        command: &CommandSpec,
        options: ExecOptions,
    ) -> Result<StreamedCommand, ToolError> {
        let events = self.checked(self.client.exec_stream(command, options).await)?;
        Ok(StreamedCommand { call: self, events })
    }

    fn note_outcome(&self, outcome: &ExecOutcome) {
        if outcome.exit.oom_killed {
            let id = self.entry.id;
            tracing::warn!(workspace = %id, event = "oom_killed", "workspace {id} reached its memory limit");
            self.entry.tell(Request::Warn(
                "a process was killed because the workspace reached its memory limit".to_owned(),
            ));
        }
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

    /// Refuses to write where a disk whose limit is only watched has no room for it.
    pub(crate) fn check_room(&self, path: &str, bytes: u64) -> Result<(), ToolError> {
        disk_watch::check(&self.entry, path, bytes)
    }

    /// The room for something that is written there little by little.
    pub(crate) fn room(&self, path: &str) -> Room {
        Room::new(self.entry.clone(), path)
    }

    /// Replaces a file.
    pub async fn write_file(&self, path: &str, content: Bytes) -> Result<Written, ToolError> {
        self.check_room(path, content.len() as u64)?;
        self.checked(self.client.write_file(path, content).await)
    }

    /// Replaces a string in a file.
    pub async fn edit(&self, spec: &EditSpec) -> Result<Edited, ToolError> {
        self.check_room(&spec.path, spec.new_string.len() as u64)?;
        self.checked(self.client.edit(spec).await)
    }

    /// Files whose path matches, newest first.
    pub async fn glob(&self, spec: &GlobSpec) -> Result<Globbed, ToolError> {
        self.checked(self.client.glob(spec).await)
    }

    /// Lines that match a regular expression.
    pub async fn grep(&self, spec: &GrepSpec) -> Result<Grepped, ToolError> {
        self.checked(self.client.grep(spec).await)
    }

    /// Does something in the repository around `path`, as an account of the sandbox.
    pub async fn git(
        &self,
        path: Option<&str>,
        user: Option<&str>,
        action: &GitAction,
    ) -> Result<GitAnswer, ToolError> {
        if matches!(action, GitAction::Commit(_) | GitAction::Checkout(_)) {
            self.check_room(path.unwrap_or_default(), 0)?;
        }
        self.checked(self.client.git(path, user, action).await)
    }

    /// The same for what talks to remotes, by the service that leads there.
    pub async fn git_remote(
        &self,
        path: Option<&str>,
        user: Option<&str>,
        action: &GitAction,
        broker: &Broker,
    ) -> Result<GitAnswer, ToolError> {
        if matches!(action, GitAction::Fetch(_) | GitAction::Pull(_) | GitAction::Clone(_)) {
            self.check_room(path.unwrap_or_default(), 0)?;
        }
        self.checked(self.client.git_with(path, user, action, Some(broker)).await)
    }

    /// The repositories of the workspace.
    pub fn repositories(&self) -> Vec<Repository> {
        self.entry.view.borrow().repositories.clone()
    }
}

/// A command whose output is read while it comes. Dropping it ends the command.
pub struct StreamedCommand {
    call: ToolCall,
    events: ExecStream,
}

impl StreamedCommand {
    /// The next event; `None` after `Exited`.
    pub async fn next(&mut self) -> Result<Option<ExecEvent>, ToolError> {
        let event = self.call.checked(self.events.next().await)?;
        if let Some(ExecEvent::Exited(outcome)) = &event {
            self.call.note_outcome(outcome);
        }
        Ok(event)
    }
}

impl Drop for ToolCall {
    fn drop(&mut self) {
        self.entry.presence.activity.end();
    }
}
