//! Running commands.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use emergent_protocol::v1;

use crate::{AgentClient, AgentError};

/// How long after a command's own timeout the agent may take to kill it and answer.
const KILL_ALLOWANCE: Duration = Duration::from_secs(15);

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// Given to `bash -c`.
    Shell(String),
    /// A program with its arguments; no shell looks at them.
    Argv(Vec<String>),
}

/// What to run and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// The command.
    pub program: Program,
    /// Where; `None` is the workspace folder.
    pub workdir: Option<String>,
    /// Added to the sandbox's environment.
    pub environment: HashMap<String, String>,
    /// As which account of the sandbox; `None` is root.
    pub user: Option<String>,
}

impl CommandSpec {
    /// A shell command in the workspace folder, as root.
    pub fn shell(command: impl Into<String>) -> Self {
        Self {
            program: Program::Shell(command.into()),
            workdir: None,
            environment: HashMap::new(),
            user: None,
        }
    }

    /// As a message of the protocol.
    pub fn to_message(&self) -> v1::Command {
        v1::Command {
            program: Some(match &self.program {
                Program::Shell(command) => v1::command::Program::Shell(command.clone()),
                Program::Argv(words) => v1::command::Program::Argv(v1::Argv { words: words.clone() }),
            }),
            workdir: self.workdir.clone().unwrap_or_default(),
            environment: self.environment.clone(),
            user: self.user.clone().unwrap_or_default(),
        }
    }
}

/// How long and how much.
#[derive(Debug, Clone, Copy)]
pub struct ExecOptions {
    /// After this the command is killed with everything it started.
    pub timeout: Duration,
    /// Bytes kept of each stream.
    pub capture_limit: u32,
}

impl Default for ExecOptions {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(120), capture_limit: 50 << 10 }
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The exit code; 128 + signal when a signal ended it.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<u32>,
    /// The OOM killer ended one of its processes, as far as that can be told.
    pub oom_killed: bool,
}

impl Exit {
    pub(crate) fn from_message(exit: v1::Exit) -> Self {
        Self {
            code: exit.code,
            signal: (exit.signal != 0).then_some(exit.signal),
            oom_killed: exit.oom_killed,
        }
    }
}

/// The beginning and the end of what a stream carried.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// The first bytes.
    pub head: Bytes,
    /// The last bytes; empty when the head is everything.
    pub tail: Bytes,
    /// How much there was.
    pub total_bytes: u64,
}

impl Output {
    fn from_message(capture: Option<v1::Capture>, limit: u32) -> Result<Self, AgentError> {
        let capture = capture.unwrap_or_default();
        let kept = capture.head.len() + capture.tail.len();
        if kept as u64 > u64::from(limit) {
            return Err(AgentError::malformed("exec", format!("{kept} bytes captured, {limit} asked for")));
        }
        // A total below what is there would turn the omission count negative.
        let total_bytes = capture.total_bytes.max(kept as u64);
        Ok(Self { head: capture.head, tail: capture.tail, total_bytes })
    }

    /// Whether the middle is missing.
    pub fn is_truncated(&self) -> bool {
        self.omitted_bytes() > 0
    }

    /// How much is missing between head and tail.
    pub fn omitted_bytes(&self) -> u64 {
        self.total_bytes - (self.head.len() + self.tail.len()) as u64
    }

    /// As text, with a line in the place of what is missing. Invalid UTF-8 is replaced.
    pub fn to_text(&self) -> String {
        if !self.is_truncated() {
            // Joined before decoding: a character may lie across the seam.
            return String::from_utf8_lossy(&[&self.head[..], &self.tail[..]].concat()).into_owned();
        }
        format!(
            "{}\n[… {} bytes omitted …]\n{}",
            String::from_utf8_lossy(&self.head),
            self.omitted_bytes(),
            String::from_utf8_lossy(&self.tail),
        )
    }
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecOutcome {
    /// How it ended.
    pub exit: Exit,
    /// What it printed.
    pub stdout: Output,
    /// What it complained about.
    pub stderr: Output,
    /// How long it ran, by the agent's clock.
    pub duration: Duration,
    /// It was killed because its time was up.
    pub timed_out: bool,
    /// Where in the sandbox the whole output is, when the captures do not hold it.
    pub output_file: Option<OutputFile>,
}

/// A file in the sandbox with everything a command printed, both streams in the order in which
/// they came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// Its path in the sandbox.
    pub path: String,
    /// It ends before the output did.
    pub truncated: bool,
}

impl OutputFile {
    /// The longest path that is believed.
    const MAX_PATH: usize = 4096;

    fn from_message(path: String, truncated: bool) -> Result<Option<Self>, AgentError> {
        if path.is_empty() {
            return Ok(None);
        }
        if path.len() > Self::MAX_PATH || !path.starts_with('/') || path.contains(char::is_control) {
            return Err(AgentError::malformed("exec", "the output file's path is none"));
        }
        Ok(Some(Self { path, truncated }))
    }
}

/// Which of a command's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamKind {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl StreamKind {
    pub(crate) fn to_message(self) -> i32 {
        match self {
            Self::Stdout => v1::OutputStream::Stdout.into(),
            Self::Stderr => v1::OutputStream::Stderr.into(),
        }
    }

    pub(crate) fn from_message(stream: v1::OutputStream) -> Option<Self> {
        match stream {
            v1::OutputStream::Stdout => Some(Self::Stdout),
            v1::OutputStream::Stderr => Some(Self::Stderr),
            v1::OutputStream::Unspecified => None,
        }
    }
}

/// What happens while a command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecEvent {
    /// It runs.
    Started,
    /// It printed something.
    Output(StreamKind, Bytes),
    /// It is over.
    Exited(Box<ExecOutcome>),
}

/// A command's events. Dropping it kills the command.
pub struct ExecStream {
    events: tonic::Streaming<v1::ExecEvent>,
    limit: Duration,
    capture_limit: u32,
    deadline: tokio::time::Instant,
    exited: bool,
}

impl ExecStream {
    /// The next event; `None` after `Exited`.
    pub async fn next(&mut self) -> Result<Option<ExecEvent>, AgentError> {
        let event = tokio::time::timeout_at(self.deadline, self.events.message())
            .await
            .map_err(|_| AgentError::TimedOut { call: "exec", limit: self.limit })?
            .map_err(|status| AgentError::from_status("exec", &status))?;
        let Some(event) = event.and_then(|event| event.event) else {
            if self.exited {
                return Ok(None);
            }
            let reason = "the stream ended before the command did".to_owned();
            return Err(AgentError::Unreachable { reason, not_sent: false });
        };
        Ok(Some(match event {
            v1::exec_event::Event::Started(_) => ExecEvent::Started,
            v1::exec_event::Event::Output(output) => match output.stream() {
                v1::OutputStream::Stdout => ExecEvent::Output(StreamKind::Stdout, output.data),
                v1::OutputStream::Stderr => ExecEvent::Output(StreamKind::Stderr, output.data),
                v1::OutputStream::Unspecified => {
                    return Err(AgentError::malformed("exec", "output of no stream"));
                }
            },
            v1::exec_event::Event::Exited(exited) => {
                self.exited = true;
                ExecEvent::Exited(Box::new(self.outcome(exited)?))
            }
        }))
    }

    fn outcome(&self, exited: v1::Exited) -> Result<ExecOutcome, AgentError> {
        let exit = exited.exit.ok_or_else(|| AgentError::malformed("exec", "no exit status"))?;
        Ok(ExecOutcome {
            exit: Exit::from_message(exit),
            stdout: Output::from_message(exited.stdout, self.capture_limit)?,
            stderr: Output::from_message(exited.stderr, self.capture_limit)?,
            duration: Duration::from_millis(exited.duration_ms),
            timed_out: exited.timed_out,
            output_file: OutputFile::from_message(exited.output_file, exited.output_file_truncated)?,
        })
    }
}

impl AgentClient {
    /// Runs a command to its end. Cancelling kills the command and everything it started.
    pub async fn exec(&self, command: &CommandSpec, options: ExecOptions) -> Result<ExecOutcome, AgentError> {
        let mut events = self.start_exec(command, options, false).await?;
        let mut has_started = false;
        while let Some(event) = events.next().await? {
            match event {
                ExecEvent::Exited(outcome) => return Ok(*outcome),
                ExecEvent::Started if !has_started => has_started = true,
                _ => return Err(AgentError::malformed("exec", "an event that nobody asked for")),
            }
        }
        Err(AgentError::malformed("exec", "no end"))
    }

    /// Runs a command and gives its output while it comes.
    pub async fn exec_stream(
        &self,
        command: &CommandSpec,
        options: ExecOptions,
    ) -> Result<ExecStream, AgentError> {
        self.start_exec(command, options, true).await
    }

    async fn start_exec(
        &self,
        command: &CommandSpec,
        options: ExecOptions,
        stream_output: bool,
    ) -> Result<ExecStream, AgentError> {
        let request = v1::ExecRequest {
            command: Some(command.to_message()),
            timeout_ms: u64::try_from(options.timeout.as_millis()).unwrap_or(u64::MAX),
            stream_output,
            capture_limit: options.capture_limit,
        };
        let limit = options.timeout + KILL_ALLOWANCE;
        let deadline = tokio::time::Instant::now() + limit;
        let events = self
            .call("exec", limit, |mut stub| {
                let request = request.clone();
                async move { stub.exec(request).await }
            })
            .await?;
        Ok(ExecStream { events, limit, capture_limit: options.capture_limit, deadline, exited: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(head: &[u8], tail: &[u8], total: u64) -> Output {
        Output { head: Bytes::copy_from_slice(head), tail: Bytes::copy_from_slice(tail), total_bytes: total }
    }

    #[test]
    fn a_character_across_the_seam_stays_whole() {
        assert_eq!(output(b"\xc3", b"\xa4", 2).to_text(), "ä");
        assert_eq!(output(b"a\xff", b"", 2).to_text(), "a\u{fffd}");
    }

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(output(b"head", b"tail", 1008).to_text(), "head\n[… 1000 bytes omitted …]\ntail");
    }

    #[test]
    fn a_lying_agent_is_caught() {
        let capture = v1::Capture { head: vec![0; 100].into(), tail: Bytes::new(), total_bytes: 1 };
        assert!(Output::from_message(Some(capture.clone()), 50).is_err());
        assert_eq!(Output::from_message(Some(capture), 100).unwrap().total_bytes, 100);
        assert_eq!(OutputFile::from_message(String::new(), true).unwrap(), None);
        for odd in ["relative", "/a\nb", &format!("/{}", "x".repeat(5000))] {
            assert!(OutputFile::from_message(odd.to_owned(), false).is_err(), "{odd}");
        }
    }
}
