//! The Exec call: a command from its start to its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use emergent_protocol::v1;
use tokio::sync::mpsc;
use tonic::Status as GrpcStatus;

use crate::agent::Shared;
use crate::error::CallError;

use super::capture::Capture;
use super::command::{Command, EndOnDrop, Status};
use super::journal::Journal;
use super::pump::{End, Sink, drain, pump};
use super::victim::Before;
use super::{GRACE, Plan};

/// Bytes kept of each stream when the request names no number.
const DEFAULT_CAPTURE: usize = 50 << 10;

/// The most that is kept of each stream: both must fit into one message.
const MAX_CAPTURE: usize = 1 << 20;

/// Events waiting for the connection. With [`super::pump`] and the stream's own window this is
/// all that a stalled reader costs.
const QUEUED_EVENTS: usize = 2;

/// The events of a command.
pub(crate) type Events = mpsc::Receiver<Result<v1::ExecEvent, GrpcStatus>>;

type Sender = mpsc::Sender<Result<v1::ExecEvent, GrpcStatus>>;

/// Starts a command and returns its events. Dropping them ends the command with everything
/// it started.
pub(crate) async fn exec(shared: &Arc<Shared>, request: v1::ExecRequest) -> Result<Events, CallError> {
    let timeout = timeout(shared.config.max_timeout, request.timeout_ms)?;
    let capture_limit = match request.capture_limit as usize {
        0 => DEFAULT_CAPTURE,
        limit => limit.min(MAX_CAPTURE),
    };
    let plan = Plan::new(shared, request.command)?;
    let journal = Arc::new(Journal::new(shared.config.output_folder.clone(), plan.owner()));
    let before = Before::now(shared);
    let started = Instant::now();
    let command = shared.launcher.launch(plan).await?;
    let (sender, events) = mpsc::channel(QUEUED_EVENTS);
    let run = Run {
        shared: shared.clone(),
        unless_done: EndOnDrop::new(command.tree.clone()),
        before,
        started,
        timeout,
        streamed: request.stream_output.then(|| sender.clone()),
        capture_limit,
        journal,
    };
    tokio::spawn(run.accompany(command, sender));
    Ok(events)
}

fn timeout(max: Duration, asked_ms: u64) -> Result<Duration, CallError> {
    match Duration::from_millis(asked_ms) {
        Duration::ZERO => Ok(max),
        asked if asked <= max => Ok(asked),
        _ => Err(CallError::invalid(format!("timeout_ms may be at most {}", max.as_millis()))),
    }
}

/// One command on its way.
struct Run {
    shared: Arc<Shared>,
    unless_done: EndOnDrop,
    before: Before,
    started: Instant,
    timeout: Duration,
    /// Where output goes while it comes.
    streamed: Option<Sender>,
    capture_limit: usize,
    /// Everything, should the captures not hold it.
    journal: Arc<Journal>,
}

/// What is left when a command is over.
struct Finished {
    status: Status,
    oom_killed: bool,
    stdout: v1::Capture,
    stderr: v1::Capture,
}

impl Run {
    async fn accompany(self, command: Command, events: Sender) {
        let Command { pid, tree, status, mut stdout, mut stderr } = command;
        let sink = |stream| Taken {
            stream,
            capture: Capture::new(self.capture_limit),
            streamed: self.streamed.clone(),
            journal: self.journal.clone(),
        };
        let mut taken = (sink(v1::OutputStream::Stdout), sink(v1::OutputStream::Stderr));
        let outcome = {
            let everything = async {
                emit(&events, v1::exec_event::Event::Started(v1::Started { pid })).await;
                tokio::join!(
                    Status::reached(status.clone()),
                    pump(&mut stdout, status.clone(), &mut taken.0),
                    pump(&mut stderr, status, &mut taken.1),
                )
            };
            let mut everything = std::pin::pin!(everything);
            let in_time = tokio::select! {
                biased;
                done = &mut everything => Some(done),
                () = tokio::time::sleep(self.timeout) => None,
                // The caller is gone; `unless_done` ends the command.
                () = events.closed() => return,
            };
            match in_time {
                Some(done) => (done, false),
                None => tokio::select! {
                    // Output is read on while the command is being ended: it may have last words.
                    (_, done) = async { tokio::join!(tree.end(GRACE), &mut everything) } => (done, true),
                    () = events.closed() => return,
                },
            }
        };
        let ((status, stdout_end, stderr_end), timed_out) = outcome;
        let finished = Finished {
            status,
            oom_killed: self.before.was_hit(&self.shared, &tree),
            stdout: taken.0.capture.into_message(),
            stderr: taken.1.capture.into_message(),
        };
        for (source, end) in [(stdout, stdout_end), (stderr, stderr_end)] {
            if end == End::HeldOpen {
                tokio::spawn(async move { drain(source, &mut Nowhere).await });
            }
        }
        self.answer(finished, timed_out, &events).await;
    }

    async fn answer(self, finished: Finished, timed_out: bool, events: &Sender) {
        let duration = self.started.elapsed();
        let (output_file, output_file_truncated) = self.journal.finish().await.unwrap_or_default();
        let exited = v1::Exited {
            exit: Some(v1::Exit {
                code: finished.status.code,
                signal: finished.status.signal,
                oom_killed: finished.oom_killed,
            }),
            stdout: Some(finished.stdout),
            stderr: Some(finished.stderr),
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            timed_out,
            output_file,
            output_file_truncated,
        };
        self.unless_done.let_go();
        emit(events, v1::exec_event::Event::Exited(exited)).await;
    }
}

/// A caller that is gone is noticed elsewhere.
async fn emit(events: &Sender, event: v1::exec_event::Event) {
    let _ = events.send(Ok(v1::ExecEvent { event: Some(event) })).await;
}

/// Captures output and passes it on where that was asked for.
struct Taken {
    stream: v1::OutputStream,
    capture: Capture,
    streamed: Option<Sender>,
    journal: Arc<Journal>,
}

impl Sink for Taken {
    async fn take(&mut self, data: &[u8]) {
        self.capture.push(data);
        self.journal.append(data, self.capture.overflows()).await;
        if let Some(events) = &self.streamed {
            let output = v1::Output { stream: self.stream.into(), data: Bytes::copy_from_slice(data) };
            emit(events, v1::exec_event::Event::Output(output)).await;
        }
    }
}

struct Nowhere;

impl Sink for Nowhere {
    async fn take(&mut self, _: &[u8]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_named_or_the_longest() {
        let max = Duration::from_secs(10);
        assert_eq!(timeout(max, 0).unwrap(), max);
        assert_eq!(timeout(max, 10_000).unwrap(), max);
        assert_eq!(timeout(max, 1).unwrap(), Duration::from_millis(1));
        assert!(timeout(max, 10_001).is_err());
        assert!(timeout(max, u64::MAX).is_err());
    }
}
