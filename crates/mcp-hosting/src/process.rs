//! A program in a sandbox: its streams, its stderr, its end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use emergent_agent_client::{StdioEvent, StdioInput, StdioOutput, StdioSpec, StreamKind};
use emergent_mcp_bridge as bridge;
use emergent_workspaces::{InUse, ToolCall, ToolError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::crash::{Obituary, status};
use crate::logs::{LogStream, Logs, Voice};

const SIGTERM: u32 = 15;
const SIGKILL: u32 = 9;

/// How long a signal may take to be delivered, and a killed program to be gone.
const SIGNAL_LIMIT: Duration = Duration::from_secs(5);
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// What is on its way between a program and its bridge.
const PIPE_BYTES: usize = 256 * 1024;

/// What a program's stdout is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stdout {
    /// The protocol.
    Protocol,
    /// Text for people.
    Log,
}

/// A program that runs. Dropping it ends it with everything it started.
pub(crate) struct Process {
    input: StdioInput,
    end: watch::Receiver<Option<Obituary>>,
    voice: Arc<Voice>,
    streams: Option<(DuplexStream, DuplexStream)>,
    tasks: [JoinHandle<()>; 2],
}

impl Process {
    /// Starts a program. When this returns, it runs.
    pub(crate) async fn start(
        call: ToolCall,
        spec: &StdioSpec,
        logs: Arc<Logs>,
        stdout: Stdout,
    ) -> Result<Self, ToolError> {
        let voice = Voice::new(logs);
        let (input, output) = call.stdio(spec).await?;
        let (to_program, from_bridge) = tokio::io::duplex(PIPE_BYTES);
        let (from_program, to_bridge) = tokio::io::duplex(PIPE_BYTES);
        let (obituary, end) = watch::channel(None);
        let listening = listen(output, to_bridge, voice.clone(), stdout, obituary);
        let tasks = [tokio::spawn(listening), tokio::spawn(speak(from_bridge, input.clone()))];
        Ok(Self { input, end, voice, streams: Some((to_program, from_program)), tasks })
    }

    /// Its streams, for the one bridge it has.
    pub(crate) fn io(&mut self) -> Option<bridge::ServerIo> {
        let (stdin, stdout) = self.streams.take()?;
        Some(bridge::ServerIo::new(stdin, stdout).with_exit(self.exit()))
    }

    /// Its end, as its bridge tells it to whoever waits for an answer.
    pub(crate) fn exit(&self) -> impl Future<Output = bridge::Exit> + Send + use<> {
        let (end, voice) = (self.end.clone(), self.voice.clone());
        async move {
            let status = match ended(end).await {
                Obituary::Exited(exit) => status(&exit),
                Obituary::Failed(reason) => reason,
            };
            bridge::Exit { status, stderr_tail: voice.tail().join("\n") }
        }
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) -> Obituary {
        ended(self.end.clone()).await
    }

    /// Whether that has come.
    pub(crate) fn is_over(&self) -> bool {
        self.end.borrow().is_some()
    }

    /// The last lines it wrote to stderr.
    pub(crate) fn stderr_tail(&self) -> Vec<String> {
        self.voice.tail()
    }

    /// Tells it to end, and makes it after a while.
    pub(crate) async fn end(&self, grace: Duration) -> Obituary {
        self.signal(SIGTERM).await;
        if let Ok(obituary) = tokio::time::timeout(grace, self.ended()).await {
            return obituary;
        }
        self.signal(SIGKILL).await;
        let killed = tokio::time::timeout(KILL_LIMIT, self.ended()).await;
        killed.unwrap_or_else(|_| Obituary::Failed("the program did not end when it was killed".to_owned()))
    }

    async fn signal(&self, signal: u32) {
        if self.end.borrow().is_some() {
            return;
        }
        let sent = tokio::time::timeout(SIGNAL_LIMIT, self.input.signal(signal)).await;
        if let Ok(Err(error)) = sent {
            tracing::debug!(%error, signal, "the program was not signalled");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn ended(mut end: watch::Receiver<Option<Obituary>>) -> Obituary {
    let lost = || Obituary::Failed("the program was given up".to_owned());
    match end.wait_for(Option::is_some).await {
        Ok(obituary) => obituary.clone().unwrap_or_else(lost),
        Err(_) => lost(),
    }
}

/// Takes what a program says to where it belongs. stderr is always taken, so that it never waits for anybody.
async fn listen(
    mut output: InUse<StdioOutput>,
    mut to_bridge: DuplexStream,
    voice: Arc<Voice>,
    stdout: Stdout,
    obituary: watch::Sender<Option<Obituary>>,
) {
    let mut is_read = true;
    let end = loop {
        match output.next().await {
            Ok(Some(StdioEvent::Output { stream: StreamKind::Stderr, data })) => {
                voice.write(LogStream::Stderr, &data);
            }
            Ok(Some(StdioEvent::Output { stream: StreamKind::Stdout, data })) => match stdout {
                Stdout::Log => voice.write(LogStream::Stdout, &data),
                Stdout::Protocol => is_read = is_read && to_bridge.write_all(&data).await.is_ok(),
            },
            Ok(Some(StdioEvent::Exited(exit))) => break Obituary::Exited(exit),
            Ok(None) => break Obituary::Failed("the program ended".to_owned()),
            Err(error) => break Obituary::Failed(format!("the program was lost: {error}")),
        }
    };
    voice.flush();
    obituary.send_replace(Some(end));
}

/// Takes what is said to a program there, and its end.
async fn speak(mut from_bridge: DuplexStream, input: StdioInput) {
    let mut buffer = bytes::BytesMut::with_capacity(16 * 1024);
    loop {
        let heard = from_bridge.read_buf(&mut buffer).await;
        if !matches!(heard, Ok(1..)) {
            break;
        }
        let said: Bytes = buffer.split().freeze();
        if input.send(said).await.is_err() {
            // It is over; its end is told by its output.
            return;
        }
        buffer.reserve(16 * 1024);
    }
    input.close();
}
