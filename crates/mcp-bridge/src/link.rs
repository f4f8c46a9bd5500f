//! The two byte streams of a process as messages.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::command::Frame;
use crate::error::{EndReason, Exit};
use crate::framing::{Line, LineReader};
use crate::hub::Hub;
use crate::json::{Malformed, Message, RawJson, split_batch};

/// How long the rest of the output of a process that ended is waited for.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// How long it may take to learn how a process ended that closed its output.
const OBITUARY: Duration = Duration::from_millis(500);

/// One running server process.
pub struct ServerIo {
    stdin: Box<dyn AsyncWrite + Send + Unpin>,
    stdout: Box<dyn AsyncRead + Send + Unpin>,
    exit: Option<Pin<Box<dyn Future<Output = Exit> + Send>>>,
}

impl ServerIo {
    /// The streams of a process.
    pub fn new(
        stdin: impl AsyncWrite + Send + Unpin + 'static,
        stdout: impl AsyncRead + Send + Unpin + 'static,
    ) -> Self {
        Self { stdin: Box::new(stdin), stdout: Box::new(stdout), exit: None }
    }

    /// A future that ends when the process does. What it says becomes the reason that open calls get.
    #[must_use]
    pub fn with_exit(mut self, exit: impl Future<Output = Exit> + Send + 'static) -> Self {
        self.exit = Some(Box::pin(exit));
        self
    }
}

impl std::fmt::Debug for ServerIo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerIo").finish_non_exhaustive()
    }
}

/// What is heard of a process.
#[derive(Debug)]
pub(crate) enum Heard {
    Message(Message),
    /// A line that was dropped for its length, and whose answer it was.
    TooLong(Option<u64>),
    /// Nothing follows.
    End(EndReason),
}

/// What the two tasks report.
enum Report {
    Heard(Heard),
    Unwritable(String),
}

/// The open streams. Dropping it closes both.
pub(crate) struct Link {
    reports: mpsc::Receiver<Report>,
    writer: mpsc::Sender<Frame>,
    /// Bounded by what its frames hold: see [`Frame`].
    outbox: VecDeque<Frame>,
    exit: Option<Pin<Box<dyn Future<Output = Exit> + Send>>>,
    /// Why it ends and until when the rest is waited for.
    ending: Option<(EndReason, Instant)>,
    /// Whether both tasks are over.
    silent: bool,
    tasks: [JoinHandle<()>; 2],
}

impl Link {
    pub(crate) fn open(io: ServerIo, hub: &Arc<Hub>) -> Self {
        // Few: each may be as long as a line may be.
        let (report, reports) = mpsc::channel(4);
        let (writer, frames) = mpsc::channel(4);
        let tasks = [
            tokio::spawn(read(io.stdout, report.clone(), hub.clone())),
            tokio::spawn(write(io.stdin, frames, report)),
        ];
        Self { reports, writer, outbox: VecDeque::new(), exit: io.exit, ending: None, silent: false, tasks }
    }

    /// Queues a line that holds its space.
    pub(crate) fn send(&mut self, frame: Frame) {
        self.outbox.push_back(frame);
    }

    /// Queues a line of the bridge's own. The caller sees to it that there are not too many.
    pub(crate) fn say(&mut self, text: RawJson) {
        self.send(Frame { text, space: None });
    }

    /// Writes what is queued until something is heard. Giving up on it loses nothing.
    pub(crate) async fn next(&mut self) -> Heard {
        loop {
            let grace = self.ending.as_ref().map_or_else(Instant::now, |(_, until)| *until);
            tokio::select! {
                report = self.reports.recv(), if !self.silent => match report {
                    Some(Report::Heard(Heard::End(reason))) => match (self.ending.take(), &self.exit) {
                        (Some((known, _)), _) => return Heard::End(known),
                        (None, None) => return Heard::End(reason),
                        (None, Some(_)) => self.ending = Some((reason, Instant::now() + OBITUARY)),
                    },
                    Some(Report::Heard(heard)) => return heard,
                    Some(Report::Unwritable(error)) if self.ending.is_none() => {
                        self.ending = Some((EndReason::WriteFailed(error), Instant::now() + OBITUARY));
                    }
                    Some(Report::Unwritable(_)) => {}
                    // Both tasks are over. That was reported, so there is a grace to wait for.
                    None => self.silent = true,
                },
                place = self.writer.reserve(), if !self.outbox.is_empty() && !self.writer.is_closed() => {
                    if let (Ok(place), Some(frame)) = (place, self.outbox.pop_front()) {
                        place.send(frame);
                    }
                }
                exit = until_exit(&mut self.exit), if self.exit.is_some() => {
                    self.exit = None;
                    let eof = matches!(self.ending, Some((EndReason::OutputClosed | EndReason::ReadFailed(_), _)));
                    if eof {
                        return Heard::End(EndReason::Exited(exit));
                    }
                    self.ending = Some((EndReason::Exited(exit), Instant::now() + LAST_WORDS));
                }
                () = sleep_until(grace), if self.ending.is_some() => {
                    let reason = self.ending.take().map_or(EndReason::OutputClosed, |(reason, _)| reason);
                    return Heard::End(reason);
                }
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn until_exit(exit: &mut Option<Pin<Box<dyn Future<Output = Exit> + Send>>>) -> Exit {
    match exit {
        Some(exit) => exit.await,
        None => std::future::pending().await,
    }
}

async fn read(stdout: Box<dyn AsyncRead + Send + Unpin>, reports: mpsc::Sender<Report>, hub: Arc<Hub>) {
    let mut lines = LineReader::new(stdout, hub.options.max_line_bytes);
    loop {
        let heard = match lines.next().await {
            Ok(Some(Line::Text(line))) => messages(line, &hub).into_iter().map(Heard::Message).collect(),
            Ok(Some(Line::TooLong { bytes, id })) => {
                hub.counters.long_lines.add();
                tracing::warn!(bytes, "dropped a line of the MCP server that is longer than allowed");
                vec![Heard::TooLong(id)]
            }
            Ok(None) => vec![Heard::End(EndReason::OutputClosed)],
            Err(error) => vec![Heard::End(EndReason::ReadFailed(error.to_string()))],
        };
        for heard in heard {
            let last = matches!(heard, Heard::End(_));
            if reports.send(Report::Heard(heard)).await.is_err() || last {
                return;
            }
        }
    }
}

/// The messages of a line. What is none is counted and otherwise ignored: an answer to it would
/// be one more line that the server does not understand.
fn messages(line: Vec<u8>, hub: &Hub) -> Vec<Message> {
    let text = String::from_utf8(line).unwrap_or_else(|error| {
        hub.counters.repaired_lines.add();
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    });
    let text = RawJson::known(text);
    let parts = if text.is_batch() { split_batch(&text) } else { Ok(vec![text]) };
    let read = |part: Result<RawJson, Malformed>| match part.and_then(Message::read) {
        Ok(message) => Some(message),
        Err(why) => {
            hub.counters.garbage_lines.add();
            tracing::debug!(%why, "skipped what the MCP server wrote, which is no message");
            None
        }
    };
    match parts {
        Ok(parts) => parts.into_iter().filter_map(|part| read(Ok(part))).collect(),
        Err(why) => read(Err(why)).into_iter().collect(),
    }
}

async fn write(
    mut stdin: Box<dyn AsyncWrite + Send + Unpin>,
    mut frames: mpsc::Receiver<Frame>,
    reports: mpsc::Sender<Report>,
) {
    while let Some(frame) = frames.recv().await {
        let written = async {
            stdin.write_all(&one_line(frame.text.as_str())).await?;
            if frames.is_empty() { stdin.flush().await } else { Ok(()) }
        };
        if let Err(error) = written.await {
            // Nobody listens if the link is closed already, and then nobody needs to know.
            let _closed = reports.send(Report::Unwritable(error.to_string())).await;
            return;
        }
    }
}

/// A JSON text as one line. Line ends in it can only stand between tokens, where a space says the same.
pub(crate) fn one_line(text: &str) -> Vec<u8> {
    let mut line = Vec::with_capacity(text.len() + 1);
    line.extend_from_slice(text.as_bytes());
    for byte in &mut line {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    line.push(b'\n');
    line
}
