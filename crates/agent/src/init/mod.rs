//! PID 1 of a sandbox.
//!
//! ```text
//!  key from the environment (and scrubbed there)
//!    or from standard input ─► loopback ─► socket ─► privileges dropped
//!                                                        │
//!      ┌─────────────────────────────────────────────────┘
//!      ▼
//!  start the agent ─► wait ─┬─ an orphan ended ──────► reaped, wait on
//!      ▲                    ├─ the agent was stopped ► told to go on, wait on
//!      │                    ├─ time for a look ──────► limits upheld (see [`limits`]), wait on
//!      │                    ├─ the agent ended ──────► its commands are ended;         │
//!      │                    │                          pause (0.1 s doubling to 5 s) ──┤
//!      │                    ├─ the lease is over ────► end everything, exit            │
//!      │                    └─ SIGTERM or SIGINT ────► end everything, exit            │
//!      └───────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! One thread, no runtime, nothing that can fail once the agent has been started. The socket
//! is init's: connections made while the agent is down wait for the next one. So is the lease (see
//! [`kept_lease`]): an agent that is started again knows when the sandbox is to end, and where none
//! lives to say that it is over, init sees it.

mod abandoned;
mod agent_process;
mod capabilities;
mod kept_lease;
mod key;
pub(crate) mod limits;
mod listener;
mod loopback;
mod nameservers;
mod restart;
mod seccomp;
mod signals;
mod stdio;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process};

pub use agent_process::{AgentOptions, run as run_agent};

use crate::agent::Limits;

use abandoned::Abandoned;
use agent_process::AgentCommand;
use kept_lease::KeptLease;
use limits::Guard;
use restart::Restart;
use signals::{Signals, Woken};
use stdio::Untaken;

/// How long processes have to comply with SIGTERM when everything is ended.
const GRACE: Duration = Duration::from_secs(5);

/// Where the agent is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A socket to be made here.
    Path(PathBuf),
    /// A listening socket this process was started with.
    Descriptor(RawFd),
}

/// How init is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where the agent is reached.
    pub listen: Listen,
    /// Where relative paths start.
    pub workspace: PathBuf,
    /// See [`crate::Config::silence_limit`].
    pub silence_limit: Duration,
    /// Bring the loopback interface up: in a network namespace of its own it starts down.
    pub loopback: bool,
    /// Keep only the few capabilities that root in a sandbox needs.
    pub drop_capabilities: bool,
    /// Refuse the system calls that no program in a sandbox needs.
    pub seccomp: bool,
    /// Whom programs are to ask for names; none leaves what the image has.
    pub nameservers: Vec<std::net::IpAddr>,
    /// The key comes as the first line of standard input, and what follows there, with standard
    /// output, is the first connection.
    pub stdio: bool,
    /// What this process finds in its environment is what the image's author wants programs to
    /// find in theirs.
    pub image_environment: bool,
    /// What init and the agent are to uphold, because the kernel does not.
    pub limits: Limits,
}

/// A step that failed. Nothing has been started then.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// There is no usable key in the environment, nor on standard input.
    #[error("{variable} (with --stdio: the first line of standard input) must hold the sandbox's key as {digits} hexadecimal digits", variable = emergent_protocol::KEY_VARIABLE, digits = 2 * emergent_protocol::KEY_LENGTH)]
    Key,
    /// The socket could not be made.
    #[error("{}: {source}", path.display())]
    Listen {
        /// Where.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The descriptor is not one.
    #[error("file descriptor {descriptor}: {source}")]
    Descriptor {
        /// Its number.
        descriptor: RawFd,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refused something.
    #[error("{step}: {source}")]
    Kernel {
        /// What was tried.
        step: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// The system call filter could not be made.
    #[error("system call filter: {0}")]
    Filter(#[from] seccompiler::Error),
}

impl InitError {
    fn kernel<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Kernel { step, source: source.into() }
    }
}

/// Runs until everything in the sandbox has ended. An error means that nothing was started.
pub fn run(options: &Options) -> Result<ExitCode, InitError> {
    let (key, first_connection) = match options.stdio {
        true => stdio::take().map(|(key, connection)| (key, Some(connection)))?,
        false => (key::take()?, None),
    };
    if options.loopback {
        loopback::bring_up().map_err(InitError::kernel("loopback interface"))?;
    }
    if let Err(error) = nameservers::write(&options.nameservers) {
        // Whoever made the sandbox may have seen to it another way.
        eprintln!("emergent-agent: {}: {error}", nameservers::FILE);
    }
    let listener = listener::open(&options.listen)?;
    if !rustix::process::getpid().is_init() {
        // Orphans come here all the same.
        let this = Some(rustix::process::getpid());
        rustix::process::set_child_subreaper(this).map_err(InitError::kernel("subreaper"))?;
    }
    rustix::thread::set_no_new_privs(true).map_err(InitError::kernel("no-new-privileges"))?;
    if options.drop_capabilities {
        capabilities::drop_most().map_err(InitError::kernel("capabilities"))?;
    }
    if options.seccomp {
        seccomp::install()?;
    }
    let signals = Signals::block().map_err(InitError::kernel("signal mask"))?;
    let first_connection = Untaken::new(first_connection);
    let mut guard = Guard::new(options.limits).map_err(InitError::kernel("count of kills"))?;
    let kills = guard.as_ref().map(Guard::kills).map(File::try_clone).transpose();
    let kills = kills.map_err(InitError::kernel("count of kills"))?;
    let mut lease = KeptLease::new(options.silence_limit).map_err(InitError::kernel("lease"))?;
    let lease_file = lease.file().try_clone().map_err(InitError::kernel("lease"))?;
    let agent = AgentCommand {
        listener: &listener,
        options,
        key,
        first_connection,
        kills: kills.as_ref(),
        lease: &lease_file,
    };
    let first = agent.start().map_err(InitError::kernel("start of the agent"))?;
    watch(&signals, &agent, first, &mut lease, guard.as_mut());
    Ok(ExitCode::SUCCESS)
}

/// Returns when everything has ended.
fn watch(
    signals: &Signals,
    agent: &AgentCommand<'_>,
    first: Pid,
    lease: &mut KeptLease,
    mut guard: Option<&mut Guard>,
) {
    let mut restart = Restart::default();
    let mut abandoned = Abandoned::default();
    let mut state = AgentState::Running { pid: first, since: Instant::now() };
    loop {
        let look = guard.as_ref().map(|guard| guard.due());
        let due = state.due().into_iter().chain(abandoned.due()).chain(look).min();
        match signals.wait(due.map(|at| at.saturating_duration_since(Instant::now()))) {
            Woken::Child => {
                for (pid, status) in changed_children() {
                    let AgentState::Running { pid: agent_pid, since } = state else { continue };
                    if pid != agent_pid {
                        continue;
                    }
                    if status.stopped() {
                        // Somebody in the sandbox did that. Nobody would be answered any more, and to
                        // the control plane it looks like a sandbox that hangs.
                        let _ = kill_process(pid, Signal::CONT);
                        continue;
                    }
                    if status.exit_status() == Some(i32::from(crate::EXIT_LEASE_OVER)) {
                        return end_everything();
                    }
                    let pause = restart.after(since.elapsed());
                    let (code, signal) = (status.exit_status(), status.terminating_signal());
                    eprintln!(
                        "emergent-agent: the agent ended (code {code:?}, signal {signal:?}), restart in {pause:?}"
                    );
                    state = AgentState::Due { at: Instant::now() + pause };
                    lease.agent_ended();
                    abandoned.ask();
                }
            }
            Woken::Terminate => return end_everything(),
            Woken::TimeUp => {}
        }
        if let Some(guard) = guard.as_mut() {
            guard.look_when_due();
        }
        abandoned.kill_when_due();
        if state.due().is_some_and(|at| at <= Instant::now()) {
            if lease.is_over() {
                return end_everything();
            }
            state = match agent.start() {
                Ok(pid) => AgentState::Running { pid, since: Instant::now() },
                // Out of processes or memory: so is the sandbox, for now.
                Err(_) => AgentState::Due { at: Instant::now() + restart.after(Duration::ZERO) },
            };
        }
    }
}

#[derive(Clone, Copy)]
enum AgentState {
    Running { pid: Pid, since: Instant },
    Due { at: Instant },
}

impl AgentState {
    /// When an agent is to be started.
    fn due(self) -> Option<Instant> {
        match self {
            Self::Running { .. } => None,
            Self::Due { at } => Some(at),
        }
    }
}

/// Reaps everything that has ended: the agent, and orphans that came to init. Those that were stopped
/// are told of too.
fn changed_children() -> Vec<(Pid, WaitStatus)> {
    let mut changed = Vec::new();
    loop {
        match rustix::process::wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some(child)) => changed.push(child),
            Err(Errno::INTR) => {}
            Ok(None) | Err(_) => return changed,
        }
    }
}

fn end_everything() {
    crate::quiesce::end_below(GRACE, || drop(changed_children()));
}

/// The program this process runs, even when its file is gone.
fn own_program() -> &'static Path {
    Path::new(OsStr::new("/proc/self/exe"))
}
