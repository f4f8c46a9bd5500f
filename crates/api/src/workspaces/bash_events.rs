//! A command's output while it comes.

use axum::response::Response;
use axum::response::sse::Event;
use emergent_agent_client::{CommandSpec, ExecEvent, ExecOptions, StreamKind};
use emergent_workspaces::StreamedCommand;
use serde_json::json;

use super::bash::FinishedCommand;
use crate::errors::{ApiError, ErrorCode};
use crate::extract::{CallRecord, OpenCall};
use crate::streaming::{EventSource, TextDecoder, event, events, failed};

/// Starts a command and answers with its events. What keeps it from starting is an ordinary
/// error.
pub(super) async fn stream(
    call: OpenCall,
    command: &CommandSpec,
    options: ExecOptions,
) -> Result<Response, ApiError> {
    let (tool, record) = call.split();
    let started = async {
        let mut command = tool.exec_stream(command, options).await?;
        let first = command.next().await?;
        Ok((command, first))
    };
    let (command, first) = match started.await {
        Ok(started) => started,
        Err(error) => return record.end(Err(error)),
    };
    Ok(events(CommandEvents {
        record: Some(record),
        command,
        first,
        stdout: TextDecoder::default(),
        stderr: TextDecoder::default(),
        waiting: Vec::new(),
        is_over: false,
    }))
}

/// The events of one command. Dropping them kills it.
struct CommandEvents {
    /// Until it has ended.
    record: Option<CallRecord>,
    command: StreamedCommand,
    first: Option<ExecEvent>,
    stdout: TextDecoder,
    stderr: TextDecoder,
    /// To be sent before anything else, the last one first.
    waiting: Vec<Event>,
    is_over: bool,
}

impl EventSource for CommandEvents {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.waiting.pop() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            let next = match self.first.take() {
                Some(first) => Ok(Some(first)),
                None => self.command.next().await,
            };
            match next {
                Ok(Some(ExecEvent::Started)) => return Some(event("started", &json!({}))),
                Ok(Some(ExecEvent::Output(stream, bytes))) => {
                    let text = self.decoder(stream).decode(&bytes);
                    if !text.is_empty() {
                        return Some(output(stream, &text));
                    }
                }
                Ok(Some(ExecEvent::Exited(outcome))) => {
                    self.end(event("exit", &FinishedCommand::from(*outcome)), None);
                }
                Ok(None) => return None,
                Err(error) => {
                    let error = ApiError::from(error);
                    let code = error.code();
                    self.end(failed(error), Some(code));
                }
            }
        }
    }
}

impl CommandEvents {
    fn decoder(&mut self, stream: StreamKind) -> &mut TextDecoder {
        match stream {
            StreamKind::Stdout => &mut self.stdout,
            StreamKind::Stderr => &mut self.stderr,
        }
    }

    /// What is left of both streams, and then the last event.
    fn end(&mut self, last: Event, failure: Option<ErrorCode>) {
        if let Some(record) = self.record.take() {
            record.ended(failure);
        }
        self.is_over = true;
        self.waiting.push(last);
        for stream in [StreamKind::Stderr, StreamKind::Stdout] {
            let rest = self.decoder(stream).finish();
            if !rest.is_empty() {
                self.waiting.push(output(stream, &rest));
            }
        }
    }
}

fn output(stream: StreamKind, text: &str) -> Event {
    let name = match stream {
        StreamKind::Stdout => "stdout",
        StreamKind::Stderr => "stderr",
    };
    event(name, &json!({ "text": text }))
}
