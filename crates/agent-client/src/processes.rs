//! Commands that go on by themselves.

use bytes::Bytes;
use emergent_protocol::v1;

use crate::client::{CALL_LIMIT, LISTING_BYTES};
use crate::{AgentClient, AgentError, CommandSpec, Exit, StreamKind};

/// The most background processes that are listed.
const MAX_LISTED: usize = 1024;

/// A background process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Names it in later calls.
    pub process_id: u64,
    /// Its pid inside the sandbox. For display only.
    pub pid: u32,
    /// What was run.
    pub command: String,
    /// When, in Unix milliseconds.
    pub started_unix_ms: u64,
    /// How it ended; `None` while it runs.
    pub exit: Option<Exit>,
    /// How much it has printed.
    pub stdout_bytes: u64,
    /// How much it has complained.
    pub stderr_bytes: u64,
}

/// A piece of a background process's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    /// Where it stands, counted from the first byte ever printed.
    pub offset: u64,
    /// The bytes.
    pub data: Bytes,
}

/// A background process's output as it comes.
pub struct OutputFollower {
    chunks: tonic::Streaming<v1::ProcessOutputChunk>,
}

impl OutputFollower {
    /// The next piece; `None` when there is no more. Waits as long as the process is silent.
    pub async fn next(&mut self) -> Result<Option<OutputChunk>, AgentError> {
        let chunk = self.chunks.message().await;
        let chunk = chunk.map_err(|status| AgentError::from_status("process_output", &status))?;
        Ok(chunk.map(|chunk| OutputChunk { offset: chunk.offset, data: chunk.data }))
    }
}

impl AgentClient {
    /// Starts a command that outlives this call and this connection. Answers its process id.
    pub async fn start_process(&self, command: &CommandSpec) -> Result<u64, AgentError> {
        let request = v1::StartProcessRequest { command: Some(command.to_message()) };
        let started = self
            .call("start_process", CALL_LIMIT, |mut stub| {
                let request = request.clone();
                async move { stub.start_process(request).await }
            })
            .await?;
        Ok(started.process_id)
    }

    /// Every background process that is remembered, running or ended.
    pub async fn list_processes(&self) -> Result<Vec<ProcessInfo>, AgentError> {
        let listed = self
            .call("list_processes", CALL_LIMIT, |stub| {
                let mut stub = stub.max_decoding_message_size(LISTING_BYTES);
                async move { stub.list_processes(v1::ListProcessesRequest {}).await }
            })
            .await?;
        Ok(listed
            .processes
            .into_iter()
            .take(MAX_LISTED)
            .map(|process| ProcessInfo {
                process_id: process.process_id,
                pid: process.pid,
                command: process.command,
                started_unix_ms: process.started_unix_ms,
                exit: process.exit.map(Exit::from_message),
                stdout_bytes: process.stdout_bytes,
                stderr_bytes: process.stderr_bytes,
            })
            .collect())
    }

    /// What a background process printed, from `offset` on.
    pub async fn process_output(
        &self,
        process_id: u64,
        stream: StreamKind,
        offset: u64,
        follow: bool,
    ) -> Result<OutputFollower, AgentError> {
        let request = v1::ProcessOutputRequest { process_id, stream: stream.to_message(), offset, follow };
        let chunks = self
            .call("process_output", CALL_LIMIT, |mut stub| async move { stub.process_output(request).await })
            .await?;
        Ok(OutputFollower { chunks })
    }

    /// Signals a background process with everything it started; answers how many got it.
    pub async fn signal_process(&self, process_id: u64, signal: u32) -> Result<u32, AgentError> {
        self.signal(v1::SignalProcessRequest { process_id, signal, stdio_pid: 0 }).await
    }

    /// Signals the program of a [`stdio`](Self::stdio) call likewise.
    pub(crate) async fn signal_stdio(&self, stdio_pid: u32, signal: u32) -> Result<u32, AgentError> {
        self.signal(v1::SignalProcessRequest { process_id: 0, signal, stdio_pid }).await
    }

    async fn signal(&self, request: v1::SignalProcessRequest) -> Result<u32, AgentError> {
        let answer = self
            .call("signal_process", CALL_LIMIT, |mut stub| async move { stub.signal_process(request).await })
            .await?;
        Ok(answer.delivered)
    }
}
