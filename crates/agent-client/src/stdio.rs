//! Programs that are spoken to through their standard streams.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use emergent_protocol::{CHUNK_BYTES, v1};
use futures::StreamExt;
use futures::stream;
use tokio::sync::mpsc;

use crate::client::{CALL_LIMIT, STREAM_MESSAGE_BYTES};
use crate::{AgentClient, AgentError, CommandSpec, Exit, Program, StreamKind};

/// Messages to the agent that wait for the connection.
const QUEUED_INPUT: usize = 2;

/// What runs, and how. There is no shell: what is in the words is data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StdioSpec {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Where; `None` is the workspace folder.
    pub workdir: Option<String>,
    /// Added to the sandbox's environment. Goes over the wire alone, and is seen by nobody outside.
    pub environment: HashMap<String, String>,
    /// As which account of the sandbox; `None` is root.
    pub user: Option<String>,
}

impl StdioSpec {
    /// A program with its arguments, in the workspace folder, as root.
    pub fn new<W: Into<String>>(words: impl IntoIterator<Item = W>) -> Self {
        let words = words.into_iter().map(Into::into).collect();
        Self { words, workdir: None, environment: HashMap::new(), user: None }
    }

    fn to_message(&self) -> v1::StdioInput {
        let command = CommandSpec {
            program: Program::Argv(self.words.clone()),
            workdir: self.workdir.clone(),
            environment: self.environment.clone(),
            user: self.user.clone(),
        };
        let header = v1::StdioHeader { command: Some(command.to_message()) };
        v1::StdioInput { input: Some(v1::stdio_input::Input::Header(header)) }
    }
}

/// What a program does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StdioEvent {
    /// It said something.
    Output {
        /// Where.
        stream: StreamKind,
        /// What.
        data: Bytes,
    },
    /// It is over.
    Exited(Exit),
}

/// A program that runs. Dropping the output half ends it with everything it started.
pub struct Stdio {
    /// Its standard input.
    pub input: StdioInput,
    /// Its other streams, and its end.
    pub output: StdioOutput,
}

/// Standard input of a program. Clones write to the same one.
#[derive(Clone)]
pub struct StdioInput {
    sender: Arc<Mutex<Option<mpsc::Sender<v1::StdioInput>>>>,
    client: AgentClient,
    pid: u32,
}

impl StdioInput {
    /// Says something. Waits while the program does not read.
    pub async fn send(&self, mut data: Bytes) -> Result<(), AgentError> {
        let gone = || AgentError::Unreachable {
            reason: "the program's standard input is closed".to_owned(),
            not_sent: false,
        };
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(gone)?;
        while !data.is_empty() {
            let piece = data.split_to(data.len().min(CHUNK_BYTES));
            let message = v1::StdioInput { input: Some(v1::stdio_input::Input::Data(piece)) };
            sender.send(message).await.map_err(|_| gone())?;
        }
        Ok(())
    }

    /// Nothing more is said, by any clone; the program reads to the end of what was. It goes on.
    pub fn close(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Signals the program with everything it started; also while it does not read. Answers how many
    /// processes that were.
    pub async fn signal(&self, signal: u32) -> Result<u32, AgentError> {
        self.client.signal_stdio(self.pid, signal).await
    }
}

/// What a program says.
pub struct StdioOutput {
    messages: tonic::Streaming<v1::StdioOutput>,
    ended: bool,
}

impl StdioOutput {
    /// What happens next; `None` after `Exited`. Waits as long as nothing does.
    pub async fn next(&mut self) -> Result<Option<StdioEvent>, AgentError> {
        use v1::stdio_output::Output;
        if self.ended {
            return Ok(None);
        }
        let message =
            self.messages.message().await.map_err(|status| AgentError::from_status("stdio", &status))?;
        let Some(message) = message else {
            return Err(AgentError::malformed("stdio", "it ended without an exit status"));
        };
        match message.output {
            Some(Output::Data(said)) => {
                let stream = StreamKind::from_message(said.stream())
                    .ok_or_else(|| AgentError::malformed("stdio", "output of no stream"))?;
                Ok(Some(StdioEvent::Output { stream, data: said.data }))
            }
            Some(Output::Exit(exit)) => {
                self.ended = true;
                Ok(Some(StdioEvent::Exited(Exit::from_message(exit))))
            }
            Some(Output::Started(_)) | None => {
                Err(AgentError::malformed("stdio", "neither output nor an end"))
            }
        }
    }
}

impl AgentClient {
    /// Starts a program and holds on to its standard streams. When this returns, it runs.
    pub async fn stdio(&self, spec: &StdioSpec) -> Result<Stdio, AgentError> {
        let header = spec.to_message();
        let slot = Arc::new(Mutex::new(None));
        let opened = async {
            let mut messages = self
                .call("stdio", CALL_LIMIT, |stub| {
                    // Each attempt has a channel of its own; nothing is said before it succeeded.
                    let (sender, mut said) = mpsc::channel(QUEUED_INPUT);
                    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
                    let said = stream::poll_fn(move |context| said.poll_recv(context));
                    let first = stream::iter([header.clone()]);
                    let mut stub = stub.max_decoding_message_size(STREAM_MESSAGE_BYTES);
                    async move { stub.stdio(first.chain(said)).await }
                })
                .await?;
            let first = messages.message().await;
            let first = first.map_err(|status| AgentError::from_status("stdio", &status))?;
            match first.and_then(|message| message.output) {
                Some(v1::stdio_output::Output::Started(v1::Started { pid })) => Ok((messages, pid)),
                _ => Err(AgentError::malformed("stdio", "it does not begin by being started")),
            }
        };
        let opened = tokio::time::timeout(CALL_LIMIT, opened).await;
        let (messages, pid) =
            opened.unwrap_or(Err(AgentError::TimedOut { call: "stdio", limit: CALL_LIMIT }))?;
        Ok(Stdio {
            input: StdioInput { sender: slot, client: self.clone(), pid },
            output: StdioOutput { messages, ended: false },
        })
    }
}
