//! Starting commands, and knowing which are alive.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};

use crate::error::CallError;

use super::command::{Command, EndOnDrop, Status, Tree};
use super::plan::Plan;
use super::report::{REPORT_BYTES, Report, Step};
use super::supervisor::{self, Streams};

/// Starts commands and remembers the supervisors that still have something below them.
#[derive(Default)]
pub(crate) struct Launcher {
    living: Arc<Living>,
}

#[derive(Default)]
struct Living {
    next: AtomicU64,
    trees: Mutex<BTreeMap<u64, Arc<Tree>>>,
}

impl Launcher {
    /// Starts a command. When this returns, the program runs; when it fails, nothing does, and
    /// when it is cancelled, whatever came to run is ended.
    pub(crate) async fn launch(&self, mut plan: Plan) -> Result<Command, CallError> {
        let prepared = prepare(plan.script.take()).map_err(|errno| plan.failure(Step::Detach, errno))?;
        let Prepared { streams, reports, stdout, stderr, incoming } = prepared;
        let supervisor = supervisor::start(&plan.image, &streams, &reports).map_err(|error| {
            plan.failure(Step::Fork, Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
        })?;
        // Pipes end when their last writer closes them; this process must not be one.
        drop((streams, reports));
        let tree = Arc::new(Tree::new(supervisor));
        let unless_started = EndOnDrop::new(tree.clone());
        let (outcome, started) = oneshot::channel();
        let (exited, status) = watch::channel(None);
        tokio::spawn(self.living.clone().accompany(tree.clone(), incoming, outcome, exited));
        match started.await {
            Ok(Report::Started { pid }) => {
                unless_started.let_go();
                Ok(Command { pid: pid.unsigned_abs(), tree, status, stdout, stderr })
            }
            Ok(Report::Failed { step, errno }) => Err(plan.failure(step, errno)),
            // Killed before it could say anything.
            Ok(Report::Exited { .. }) | Err(_) => Err(plan.failure(Step::Fork, Errno::SRCH)),
        }
    }

    /// The trees that still have something alive.
    pub(crate) fn living(&self) -> Vec<Arc<Tree>> {
        self.living.lock().values().cloned().collect()
    }
}

impl Living {
    /// Stays with a supervisor from its start until its process entry is gone.
    async fn accompany(
        self: Arc<Self>,
        tree: Arc<Tree>,
        mut incoming: pipe::Receiver,
        outcome: oneshot::Sender<Report>,
        exited: watch::Sender<Option<Status>>,
    ) {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(key, tree.clone());
        if let Some(first) = read_report(&mut incoming).await {
            // Nobody listens any more when the call was cancelled.
            let _ = outcome.send(first);
            if let Report::Started { pid } = first {
                watch_over(incoming, pid, exited).await;
            }
        }
        reap(&tree).await;
        self.lock().remove(&key);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Tree>>> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Prepared {
    streams: Streams,
    reports: OwnedFd,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    incoming: pipe::Receiver,
}

fn prepare(script: Option<OwnedFd>) -> Result<Prepared, Errno> {
    let stdin = rustix::fs::open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let (stdout, stdout_end) = readable_pipe()?;
    let (stderr, stderr_end) = readable_pipe()?;
    let (incoming, reports) = readable_pipe()?;
    let streams = Streams { stdin, stdout: stdout_end, stderr: stderr_end, script };
    Ok(Prepared { streams, reports, stdout, stderr, incoming })
}

/// The reading end for the runtime, the writing end for a process that may block on it.
fn readable_pipe() -> Result<(pipe::Receiver, OwnedFd), Errno> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    let read = pipe::Receiver::from_owned_fd(read)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok((read, write))
}

/// `None` when the supervisor is gone.
async fn read_report(incoming: &mut pipe::Receiver) -> Option<Report> {
    let mut bytes = [0; REPORT_BYTES];
    incoming.read_exact(&mut bytes).await.ok()?;
    Report::from_bytes(bytes)
}

/// Passes the command's end on, and returns when nothing of it is left.
async fn watch_over(mut incoming: pipe::Receiver, pid: i32, exited: watch::Sender<Option<Status>>) {
    while let Some(report) = read_report(&mut incoming).await {
        if let Report::Exited { status } = report {
            exited.send_replace(Some(Status::from_wait(status)));
        }
    }
    if exited.borrow().is_none() {
        // Somebody inside killed the supervisor. What it watched over went to init; of that
        // only the command's own session can still be found.
        if let Some(group) = Pid::from_raw(pid) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        exited.send_replace(Some(Status::KILLED));
    }
}

/// Waits for the supervisor's process entry. It has closed its pipe, so it is about to exit;
/// asking until it has needs no signal handler and no thread.
async fn reap(tree: &Tree) {
    let mut pause = Duration::from_micros(200);
    while !tree.try_reap(|pid| !matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(None))) {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}
