//! Commands on terminals of their own.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use emergent_protocol::{CHUNK_BYTES, v1};
use futures::StreamExt;
use futures::stream;
use tokio::sync::mpsc;

use crate::client::{CALL_LIMIT, STREAM_MESSAGE_BYTES};
use crate::{AgentClient, AgentError, CommandSpec, Exit};

/// Messages to the agent that wait for the connection.
const QUEUED_INPUT: usize = 4;

/// What runs on a terminal, and how big it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalSpec {
    /// What to run, or else a login shell.
    pub program: Option<crate::Program>,
    /// Where; `None` is the workspace folder.
    pub workdir: Option<String>,
    /// Added to the sandbox's environment.
    pub environment: std::collections::HashMap<String, String>,
    /// As which account of the sandbox; `None` is root.
    pub user: Option<String>,
    /// Characters in a line.
    pub columns: u16,
    /// Lines.
    pub rows: u16,
}

impl Default for TerminalSpec {
    fn default() -> Self {
        Self {
            program: None,
            workdir: None,
            environment: Default::default(),
            user: None,
            columns: 80,
            rows: 24,
        }
    }
}

impl TerminalSpec {
    fn to_message(&self) -> v1::TerminalInput {
        let spec = CommandSpec {
            program: crate::Program::Argv(Vec::new()),
            workdir: self.workdir.clone(),
            environment: self.environment.clone(),
            user: self.user.clone(),
        };
        let program = self.program.clone().map(|program| CommandSpec { program, ..spec.clone() });
        let command = match program {
            Some(with_program) => with_program.to_message(),
            None => v1::Command { program: None, ..spec.to_message() },
        };
        input(v1::terminal_input::Input::Header(v1::TerminalHeader {
            command: Some(command),
            size: Some(size(self.columns, self.rows)),
        }))
    }
}

fn input(input: v1::terminal_input::Input) -> v1::TerminalInput {
    v1::TerminalInput { input: Some(input) }
}

fn size(columns: u16, rows: u16) -> v1::TerminalSize {
    v1::TerminalSize { columns: columns.into(), rows: rows.into() }
}

/// What happens on a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalEvent {
    /// The command runs.
    Started,
    /// It printed something.
    Data(Bytes),
    /// It is over.
    Exited(Exit),
}

/// A command on a terminal. Dropping the output half ends it with everything it started.
pub struct Terminal {
    /// What is typed.
    pub input: TerminalInput,
    /// What is shown.
    pub output: TerminalOutput,
}

/// The keyboard's side. Clones write to the same terminal.
#[derive(Clone)]
pub struct TerminalInput {
    sender: Arc<Mutex<Option<mpsc::Sender<v1::TerminalInput>>>>,
}

impl TerminalInput {
    /// Types something. Waits while the program does not read.
    pub async fn send(&self, mut data: Bytes) -> Result<(), AgentError> {
        while !data.is_empty() {
            let piece = data.split_to(data.len().min(CHUNK_BYTES));
            self.put(v1::terminal_input::Input::Data(piece)).await?;
        }
        Ok(())
    }

    /// Gives the terminal another size; the program is told.
    pub async fn resize(&self, columns: u16, rows: u16) -> Result<(), AgentError> {
        self.put(v1::terminal_input::Input::Resize(size(columns, rows))).await
    }

    /// No more is typed, by any clone. The program goes on.
    pub fn close(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    async fn put(&self, message: v1::terminal_input::Input) -> Result<(), AgentError> {
        let gone =
            || AgentError::Unreachable { reason: "the terminal is closed".to_owned(), not_sent: false };
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(gone)?;
        sender.send(input(message)).await.map_err(|_| gone())
    }
}

/// The screen's side.
pub struct TerminalOutput {
    messages: tonic::Streaming<v1::TerminalOutput>,
    ended: bool,
}

impl TerminalOutput {
    /// What happens next; `None` after `Exited`. Waits as long as nothing does.
    pub async fn next(&mut self) -> Result<Option<TerminalEvent>, AgentError> {
        if self.ended {
            return Ok(None);
        }
        let message =
            self.messages.message().await.map_err(|status| AgentError::from_status("terminal", &status))?;
        let Some(message) = message else {
            return Err(AgentError::malformed("terminal", "it ended without an exit status"));
        };
        match message.output {
            Some(v1::terminal_output::Output::Started(_)) => Ok(Some(TerminalEvent::Started)),
            Some(v1::terminal_output::Output::Data(data)) => Ok(Some(TerminalEvent::Data(data))),
            Some(v1::terminal_output::Output::Exit(exit)) => {
                self.ended = true;
                Ok(Some(TerminalEvent::Exited(Exit::from_message(exit))))
            }
            None => Err(AgentError::malformed("terminal", "an empty message")),
        }
    }
}

impl AgentClient {
    /// Starts a command, or a login shell, on a terminal of its own.
    pub async fn terminal(&self, spec: &TerminalSpec) -> Result<Terminal, AgentError> {
        let header = spec.to_message();
        let slot = Arc::new(Mutex::new(None));
        let messages = self
            .call("terminal", CALL_LIMIT, |stub| {
                // Each attempt has a channel of its own; nothing is typed before it succeeded.
                let (sender, mut typed) = mpsc::channel(QUEUED_INPUT);
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
                let typed = stream::poll_fn(move |context| typed.poll_recv(context));
                let first = stream::iter([header.clone()]);
                let mut stub = stub.max_decoding_message_size(STREAM_MESSAGE_BYTES);
                async move { stub.terminal(first.chain(typed)).await }
            })
            .await?;
        Ok(Terminal {
            input: TerminalInput { sender: slot },
            output: TerminalOutput { messages, ended: false },
        })
    }
}
