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
use crate::threads;

use super::command::{Command, EndOnDrop, Running, Status, Tree};
use super::plan::Plan;
use super::report::{REPORT_BYTES, Report, Step};
use super::supervisor::{self, Cradle, Streams};

/// Starts commands and remembers the supervisors that still have something below them.
#[derive(Default)]
pub(crate) struct Launcher {
    living: Arc<Living>,
}

#[derive(Default)]
struct Living {
    next: AtomicU64,
    trees: Mutex<BTreeMap<u64, Arc<Tree>>>,
    /// Processes of any tree that were seen to end by SIGKILL that was not this agent's.
    killed_by_others: AtomicU64,
}

impl Launcher {
    /// Starts a command. When this returns, the program runs; when it fails, nothing does, and
    /// when it is cancelled, whatever came to run is ended.
    pub(crate) async fn launch(&self, mut plan: Plan) -> Result<Command, CallError> {
        let prepared = prepare(plan.script.take(), plan.input.take());
        let prepared = prepared.map_err(|errno| plan.failure(Step::Detach, errno))?;
        let Prepared { streams, stdout, stderr } = prepared;
        let (Running { tree, status }, pid) = self.start(&plan, streams).await?;
        Ok(Command { pid, tree, status, stdout, stderr })
    }

    /// Starts a command whose streams are all this terminal, which becomes its session's.
    pub(crate) async fn launch_on_terminal(
        &self,
        mut plan: Plan,
        terminal: OwnedFd,
    ) -> Result<(Running, u32), CallError> {
        let failure = |errno| plan.failure(Step::Detach, errno);
        let [stdout, stderr] = [&terminal, &terminal].map(|end| rustix::io::fcntl_dupfd_cloexec(end, 3));
        let (stdout, stderr) = (stdout.map_err(failure)?, stderr.map_err(failure)?);
        let script = plan.script.take();
        let streams = Streams { stdin: terminal, stdout, stderr, script, is_terminal: true };
        self.start(&plan, streams).await
    }

    /// Where there is no room for another process, what an earlier command has left makes some: nobody
    /// waits for it, and nobody else can end it any more. Where the folder is gone that commands start in
    /// when they name none, it is made again.
    async fn start(&self, plan: &Plan, streams: Streams) -> Result<(Running, u32), CallError> {
        let started = match self.start_once(plan, &streams).await {
            Err((Step::Fork, Errno::AGAIN)) if self.end_largest_leftover().await => {
                self.start_once(plan, &streams).await
            }
            Err((Step::EnterFolder, Errno::NOENT)) if make_again(plan).await => {
                self.start_once(plan, &streams).await
            }
            started => started,
        };
        started.map_err(|(step, errno)| plan.failure(step, errno))
    }

    /// Ends the largest of those trees whose program has ended; whether there was one of some size.
    async fn end_largest_leftover(&self) -> bool {
        /// Less than this is not what fills a sandbox.
        const LEAST: u32 = 32;
        const PATIENCE: Duration = Duration::from_secs(5);

        let mut largest: Option<(u32, Arc<Tree>)> = None;
        for tree in self.living().into_iter().filter(|tree| tree.is_leftover()) {
            let size = tree.size().await;
            if size >= largest.as_ref().map_or(LEAST, |(size, _)| size + 1) {
                largest = Some((size, tree));
            }
        }
        let Some((_, tree)) = largest else { return false };
        tree.signal(Signal::KILL).await;
        tree.is_gone_within(PATIENCE).await
    }

    async fn start_once(&self, plan: &Plan, streams: &Streams) -> Result<(Running, u32), (Step, Errno)> {
        let (incoming, reports) = readable_pipe().map_err(|errno| (Step::Detach, errno))?;
        let (supervisor, cradle) = supervisor::start(&plan.image, plan.is_lasting, streams, &reports)
            .map_err(|errno| (Step::Fork, errno))?;
        // A pipe ends when its last writer closes it; this process must not be one.
        drop(reports);
        let tree = Arc::new(Tree::new(supervisor, plan.image.process_limit));
        let unless_started = EndOnDrop::new(tree.clone());
        let (outcome, started) = oneshot::channel();
        let (exited, status) = watch::channel(None);
        tokio::spawn(self.living.clone().accompany(tree.clone(), cradle, incoming, outcome, exited));
        match started.await {
            Ok(Report::Started { pid }) => {
                unless_started.let_go();
                Ok((Running { tree, status }, pid.unsigned_abs()))
            }
            Ok(Report::Failed { step, errno }) => Err((step, errno)),
            // Killed before it could say anything.
            Ok(Report::Exited { .. } | Report::Killed) | Err(_) => Err((Step::Fork, Errno::SRCH)),
        }
    }

    /// The trees that still have something alive.
    pub(crate) fn living(&self) -> Vec<Arc<Tree>> {
        self.living.lock().values().cloned().collect()
    }

    /// The tree of the command with this pid, if it has something alive. The newest: a number is given
    /// away again when a command has ended, even if what it left goes on.
    pub(crate) fn of_command(&self, pid: u32) -> Option<Arc<Tree>> {
        self.living.lock().values().rev().find(|tree| tree.is_of(pid)).cloned()
    }

    /// Whether any tree has something alive.
    pub(super) fn has_living(&self) -> bool {
        !self.living.lock().is_empty()
    }

    /// How many were started ever.
    pub(super) fn started(&self) -> u64 {
        self.living.next.load(Ordering::Relaxed)
    }

    /// How many processes were seen to end by SIGKILL that was not this agent's.
    pub(super) fn killed_by_others(&self) -> u64 {
        self.living.killed_by_others.load(Ordering::Relaxed)
    }

    /// Some were, even if nobody saw it.
    pub(super) fn note_killed(&self, number: u64) {
        self.living.killed_by_others.fetch_add(number, Ordering::Relaxed);
    }
}

impl Living {
    /// Stays with a supervisor from its start until its process entry is gone.
    async fn accompany(
        self: Arc<Self>,
        tree: Arc<Tree>,
        cradle: Cradle,
        mut incoming: pipe::Receiver,
        outcome: oneshot::Sender<Report>,
        exited: watch::Sender<Option<Status>>,
    ) {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(key, tree.clone());
        if let Some(first) = next_report(&tree, &mut incoming).await {
            if let Report::Started { pid } = first {
                tree.note_started(pid);
            }
            // Nobody listens any more when the call was cancelled.
            let _ = outcome.send(first);
            if let Report::Started { pid } = first {
                self.watch_over(&tree, incoming, pid, exited).await;
            }
        }
        reap(&tree).await;
        cradle.free();
        self.lock().remove(&key);
    }

    /// Passes the command's end on, and returns when nothing of it is left.
    async fn watch_over(
        &self,
        tree: &Tree,
        mut incoming: pipe::Receiver,
        pid: i32,
        exited: watch::Sender<Option<Status>>,
    ) {
        while let Some(report) = next_report(tree, &mut incoming).await {
            match report {
                Report::Exited { status, peak_kib } => {
                    let status = Status::from_wait(status);
                    // A shell tells of the death of its last child by its own exit code.
                    if status.code == Status::KILLED.code {
                        self.note_killed(tree);
                    }
                    tree.note_peak(u64::from(peak_kib.unsigned_abs()) << 10);
                    tree.note_ended();
                    exited.send_replace(Some(status));
                }
                Report::Killed => self.note_killed(tree),
                Report::Started { .. } | Report::Failed { .. } => {}
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

    fn note_killed(&self, tree: &Tree) {
        if tree.note_killed() {
            self.killed_by_others.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Tree>>> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the folder again that the command is to start in, unless the request named it.
async fn make_again(plan: &Plan) -> bool {
    let Some(folder) = plan.default_folder.clone() else { return false };
    matches!(threads::file_work(move || folder.make_again()).await, Some(Ok(())))
}

struct Prepared {
    streams: Streams,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
}

fn prepare(script: Option<OwnedFd>, input: Option<OwnedFd>) -> Result<Prepared, Errno> {
    let nothing = || rustix::fs::open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let stdin = input.map_or_else(nothing, Ok)?;
    let (stdout, stdout_end) = readable_pipe()?;
    let (stderr, stderr_end) = readable_pipe()?;
    let streams = Streams { stdin, stdout: stdout_end, stderr: stderr_end, script, is_terminal: false };
    Ok(Prepared { streams, stdout, stderr })
}

/// The reading end for the runtime, the writing end for a process that may block on it.
fn readable_pipe() -> Result<(pipe::Receiver, OwnedFd), Errno> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&read, OFlags::NONBLOCK)?;
    // It was made here: what it is need not be asked for.
    let read = pipe::Receiver::from_owned_fd_unchecked(read)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok((read, write))
}

/// The next report, also of a supervisor that was stopped: whoever is root in the sandbox can do that, and
/// nobody would hear of the command's end. To see it would take a handler for signals of all children, so
/// it is told to go on now and then.
async fn next_report(tree: &Tree, incoming: &mut pipe::Receiver) -> Option<Report> {
    const LONGEST_PAUSE: Duration = Duration::from_secs(2);

    let report = read_report(incoming);
    tokio::pin!(report);
    let mut pause = Duration::from_millis(500);
    loop {
        tokio::select! {
            report = &mut report => return report,
            () = tokio::time::sleep(pause) => tree.let_supervisor_go_on(),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// `None` when the supervisor is gone.
async fn read_report(incoming: &mut pipe::Receiver) -> Option<Report> {
    let mut bytes = [0; REPORT_BYTES];
    incoming.read_exact(&mut bytes).await.ok()?;
    Report::from_bytes(bytes)
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

#[cfg(test)]
mod tests {
    use emergent_protocol::{FailureCode, KEY_LENGTH, v1};
    use tonic::Status as GrpcStatus;

    use super::super::{collect, exec};
    use super::*;
    use crate::agent::{Agent, Config};

    fn command(workdir: &str) -> v1::Command {
        let program = Some(v1::command::Program::Shell("pwd".to_owned()));
        v1::Command { program, workdir: workdir.to_owned(), ..Default::default() }
    }

    /// A sandbox without its workspace still runs commands; one that names a folder is told that it is
    /// missing.
    #[tokio::test]
    async fn the_workspace_is_made_again_and_no_other_folder() {
        let root = tempfile::tempdir().unwrap();
        let workspace = root.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        let config =
            Config { output_folder: root.path().join("output"), ..Config::new(&workspace, [0; KEY_LENGTH]) };
        let shared = Agent::new(config).shared;
        for workdir in [workspace.to_str().unwrap(), "sub"] {
            std::fs::remove_dir_all(&workspace).unwrap();
            let request = v1::ExecRequest { command: Some(command(workdir)), ..Default::default() };
            let refused = GrpcStatus::from(exec(&shared, request).await.unwrap_err());
            let (code, failure) = FailureCode::read(&refused).unwrap();
            assert_eq!((code, failure.field.as_str()), (FailureCode::InvalidRequest, "workdir"));
            assert!(!workspace.exists());
            let plan = Plan::new(&shared, Some(command(""))).unwrap();
            let printed = collect(&shared, plan, 1000).await.unwrap().stdout;
            assert_eq!(String::from_utf8(printed).unwrap(), format!("{}\n", workspace.display()));
        }
    }
}
