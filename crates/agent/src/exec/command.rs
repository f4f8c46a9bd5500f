//! A running command and all that it started.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::net::unix::pipe;
use tokio::sync::watch;

use crate::tree;

use super::GRACE;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status {
    /// The exit code; 128 + signal when a signal ended it.
    pub(crate) code: i32,
    /// The signal that ended it, or 0.
    pub(crate) signal: u32,
}

impl Status {
    /// What is said when nobody is left to tell.
    pub(super) const KILLED: Self = Self { code: 128 + libc::SIGKILL, signal: libc::SIGKILL.unsigned_abs() };

    /// Waits for the end.
    pub(crate) async fn reached(mut status: watch::Receiver<Option<Self>>) -> Self {
        let reached = status.wait_for(Option::is_some).await;
        // The sender is not dropped without one, unless the runtime goes away.
        reached.ok().and_then(|status| *status).unwrap_or(Self::KILLED)
    }

    pub(super) fn from_wait(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            Self { code: 128 + signal, signal: signal.unsigned_abs() }
        } else {
            Self { code: libc::WEXITSTATUS(status), signal: 0 }
        }
    }
}

/// A command that was started.
pub(crate) struct Command {
    /// The process that runs the program.
    pub(crate) pid: u32,
    /// It and everything it started.
    pub(crate) tree: Arc<Tree>,
    /// `None` until the program itself has ended.
    pub(crate) status: watch::Receiver<Option<Status>>,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
}

/// A command that was started, whatever it prints to.
pub(crate) struct Running {
    /// It and everything it started.
    pub(crate) tree: Arc<Tree>,
    /// `None` until the program itself has ended.
    pub(crate) status: watch::Receiver<Option<Status>>,
}

/// Everything below one supervisor.
pub(crate) struct Tree {
    /// Held while its number is used, so that it is not reaped and given away meanwhile.
    supervisor: Mutex<Option<Pid>>,
    gone: watch::Sender<bool>,
    /// The command's own process, which leads a session and a process group; 0 before it runs.
    command: AtomicI32,
    /// Whether this agent has sent it SIGKILL.
    killed_by_agent: AtomicBool,
    /// How many of its processes were seen to end by SIGKILL that was not this agent's.
    killed_by_others: AtomicU64,
    /// The memory of the largest of its processes that had ended when the program did.
    peak_bytes: AtomicU64,
    /// Whether the program itself has ended: what is left, nobody waits for.
    is_leftover: AtomicBool,
    /// How many processes there may be, where somebody upholds that who is slower than a bomb.
    process_limit: Option<u64>,
}

impl Tree {
    pub(super) fn new(supervisor: Pid, process_limit: Option<u64>) -> Self {
        Self {
            supervisor: Mutex::new(Some(supervisor)),
            gone: watch::Sender::new(false),
            command: AtomicI32::new(0),
            killed_by_agent: AtomicBool::new(false),
            killed_by_others: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            is_leftover: AtomicBool::new(false),
            process_limit,
        }
    }

    /// Notes that one of its processes was ended by SIGKILL; whether that was somebody else's.
    pub(super) fn note_killed(&self) -> bool {
        let by_others = !self.killed_by_agent.load(Ordering::Relaxed);
        self.killed_by_others.fetch_add(u64::from(by_others), Ordering::Relaxed);
        by_others
    }

    pub(super) fn killed_by_others(&self) -> u64 {
        self.killed_by_others.load(Ordering::Relaxed)
    }

    pub(super) fn note_started(&self, command: i32) {
        self.command.store(command, Ordering::Relaxed);
    }

    pub(super) fn note_ended(&self) {
        self.is_leftover.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_leftover(&self) -> bool {
        self.is_leftover.load(Ordering::Relaxed)
    }

    /// How many processes it has.
    pub(super) async fn size(self: &Arc<Self>) -> u32 {
        self.blocking(|supervisor| u32::try_from(tree::descendants(supervisor).len()).unwrap_or(u32::MAX))
            .await
    }

    /// Whether its command has this number.
    pub(super) fn is_of(&self, pid: u32) -> bool {
        pid != 0 && self.command.load(Ordering::Relaxed).unsigned_abs() == pid
    }

    pub(super) fn note_peak(&self, bytes: u64) {
        self.peak_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn peak_bytes(&self) -> u64 {
        self.peak_bytes.load(Ordering::Relaxed)
    }

    /// Signals everything that is alive; returns how many processes that was.
    pub(crate) async fn signal(self: &Arc<Self>, signal: Signal) -> u32 {
        if signal == Signal::KILL {
            self.killed_by_agent.store(true, Ordering::Relaxed);
        }
        // Its number is not given away while its group or anything below the supervisor lives.
        let group = Pid::from_raw(self.command.load(Ordering::Relaxed));
        self.blocking(move |supervisor| {
            if signal == Signal::KILL {
                tree::kill_forking(group, || tree::descendants(supervisor))
            } else {
                tree::signal_all(&tree::descendants(supervisor), signal)
            }
        })
        .await
    }

    /// Ends everything: SIGTERM, then SIGKILL for what is still there after `grace`. Returns
    /// when nothing is left, and how many had to be killed.
    pub(crate) async fn end(self: &Arc<Self>, grace: Duration) -> u32 {
        /// After this what is left is stuck in the kernel, and waiting does not help.
        const ATTEMPTS: usize = 50;
        const PAUSE: Duration = Duration::from_millis(200);

        let asked = async {
            self.signal(Signal::TERM).await;
            self.is_gone_within(grace).await
        };
        tokio::select! {
            gone = asked => if gone {
                return 0;
            },
            // Whoever is looked for multiplies meanwhile; and to find all of them to be asked takes
            // longer than a caller waits.
            () = self.crowds() => self.freeze(),
        }
        let mut killed = 0;
        for _ in 0..ATTEMPTS {
            killed += self.signal(Signal::KILL).await;
            if self.is_gone_within(PAUSE).await {
                break;
            }
        }
        killed
    }

    /// Returns when the sandbox has nearly as many processes as it may have.
    async fn crowds(&self) {
        const LOOK_INTERVAL: Duration = Duration::from_millis(100);

        let Some(limit) = self.process_limit else { return std::future::pending().await };
        while !crate::init::limits::is_near(limit) {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Stops the command's process group at one stroke; looking for its members is quick then.
    fn freeze(&self) {
        let group = Pid::from_raw(self.command.load(Ordering::Relaxed));
        if let Some(group) = group.filter(|_| !*self.gone.borrow()) {
            let _ = kill_process_group(group, Signal::STOP);
        }
    }

    /// Waits until nothing is left, or for this long.
    pub(crate) async fn is_gone_within(&self, limit: Duration) -> bool {
        let mut gone = self.gone.subscribe();
        tokio::time::timeout(limit, gone.wait_for(|gone| *gone)).await.is_ok()
    }

    /// Gives the supervisor's number back if `wait` says that it has ended; asks nothing while
    /// somebody uses the number.
    pub(super) fn try_reap(&self, wait: impl FnOnce(Pid) -> bool) -> bool {
        let mut supervisor = match self.supervisor.try_lock() {
            Ok(supervisor) => supervisor,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        if let Some(pid) = *supervisor {
            if !wait(pid) {
                return false;
            }
            *supervisor = None;
        }
        self.gone.send_replace(true);
        true
    }

    /// Undoes a SIGSTOP. While somebody uses the supervisor's number, the next time will do.
    pub(super) fn let_supervisor_go_on(&self) {
        if let Ok(supervisor) = self.supervisor.try_lock()
            && let Some(pid) = *supervisor
        {
            let _ = rustix::process::kill_process(pid, Signal::CONT);
        }
    }

    async fn blocking(self: &Arc<Self>, work: impl FnOnce(Pid) -> u32 + Send + 'static) -> u32 {
        let tree = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let supervisor = tree.supervisor.lock().unwrap_or_else(PoisonError::into_inner);
            supervisor.map_or(0, work)
        });
        done.await.unwrap_or(0)
    }
}

/// Ends a command when it is dropped, unless it was let go.
pub(crate) struct EndOnDrop {
    tree: Option<Arc<Tree>>,
}

impl EndOnDrop {
    pub(crate) fn new(tree: Arc<Tree>) -> Self {
        Self { tree: Some(tree) }
    }

    /// What the command left running is left alone.
    pub(crate) fn let_go(mut self) {
        self.tree = None;
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let (Some(tree), Ok(runtime)) = (self.tree.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        runtime.spawn(async move { tree.end(GRACE).await });
    }
}

/// How many bytes a pipe holds now.
pub(super) fn bytes_waiting(source: &pipe::Receiver) -> u64 {
    rustix::io::ioctl_fionread(source.as_fd()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_128_and_its_number() {
        let check = |raw: i32, code: i32, signal: u32| {
            assert_eq!(Status::from_wait(raw), Status { code, signal }, "{raw:#x}");
        };
        check(0, 0, 0);
        check(7 << 8, 7, 0);
        check(255 << 8, 255, 0);
        check(9, 137, 9);
        // With a core dump.
        check(11 | 0x80, 139, 11);
        assert_eq!(Status::from_wait(9), Status::KILLED);
    }
}
