//! The agent as a process of its own, from both sides: how init starts it, and how it starts.

#![expect(unsafe_code, reason = "descriptors and signal dispositions are taken over from init")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::process::{Pid, Signal};
use tokio::io::Join;
use tokio::net::UnixListener;
use tokio::net::unix::pipe;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::either::Either;

use crate::agent::{Agent, Config, Limits, Scope};
use crate::serve::Ended;

use super::key::{self, Key};
use super::stdio::{FirstConnection, Untaken};
use super::{InitError, Options, own_program};

/// Enough for file work; the default is 2 MiB.
const STACK_BYTES: usize = 256 << 10;

/// What init starts, again and again.
pub(super) struct AgentCommand<'a> {
    pub(super) listener: &'a OwnedFd,
    pub(super) options: &'a Options,
    pub(super) key: Key,
    pub(super) first_connection: Untaken,
    /// See [`AgentOptions::kills`].
    pub(super) kills: Option<&'a File>,
    /// See [`AgentOptions::lease`].
    pub(super) lease: &'a File,
}

/// How the agent is started by init.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentOptions {
    /// The listening socket it inherits.
    pub listener: RawFd,
    /// Where relative paths start.
    pub workspace: PathBuf,
    /// Which processes are the sandbox's.
    pub scope: Scope,
    /// See [`Config::silence_limit`].
    pub silence_limit: Duration,
    /// What the first connection is read from and written to, where it does not come through
    /// the socket.
    pub first_connection: Option<(RawFd, RawFd)>,
    /// Its environment is the image's.
    pub image_environment: bool,
    /// What init and the agent uphold.
    pub limits: Limits,
    /// Where init counts what it has killed for want of memory.
    pub kills: Option<RawFd>,
    /// Where the agent writes down what it knows of the control plane, for the one after it.
    pub lease: Option<RawFd>,
}

impl AgentCommand<'_> {
    /// Starts an agent on init's socket. The key travels through a pipe: neither the command
    /// line nor the environment of the agent has it.
    pub(super) fn start(&self) -> io::Result<Pid> {
        // Init starts nothing else, so nothing else can inherit it.
        fcntl_setfd(self.listener, FdFlags::empty())?;
        let mut arguments: Vec<OsString> = vec![
            "serve".into(),
            "--listen-fd".into(),
            self.listener.as_raw_fd().to_string().into(),
            "--workspace".into(),
            self.options.workspace.clone().into(),
            "--silence-limit".into(),
            self.options.silence_limit.as_secs().to_string().into(),
        ];
        if rustix::process::getpid().is_init() {
            arguments.push("--namespace".into());
        }
        let Limits { memory, processes } = self.options.limits;
        for (name, limit) in [("--memory-limit", memory), ("--process-limit", processes)] {
            if let Some(limit) = limit {
                arguments.extend([name.into(), limit.to_string().into()]);
            }
        }
        if let Some(kills) = self.kills {
            fcntl_setfd(kills, FdFlags::empty())?;
            arguments.extend(["--kills-fd".into(), kills.as_raw_fd().to_string().into()]);
        }
        fcntl_setfd(self.lease, FdFlags::empty())?;
        arguments.extend(["--lease-fd".into(), self.lease.as_raw_fd().to_string().into()]);
        // Held until the agent has been started; then it alone has it.
        let first_connection = self.first_connection.hand_over()?;
        if let Some(connection) = &first_connection {
            arguments.extend(["--first-connection".into(), connection.as_argument().into()]);
        }
        let mut command = Command::new(own_program());
        command.env_clear();
        if self.options.image_environment {
            arguments.push("--image-environment".into());
            // Where the key came that way, its place is overwritten; even so it is no program's.
            command.envs(std::env::vars_os().filter(|(name, _)| name != emergent_protocol::KEY_VARIABLE));
        }
        let mut agent = command.args(arguments).stdin(Stdio::piped()).spawn()?;
        if let Some(mut input) = agent.stdin.take() {
            let digits: String = self.key.iter().map(|byte| format!("{byte:02x}")).collect();
            // Fits into the pipe. An agent that is dead already is seen as such.
            let _ = input.write_all(digits.as_bytes());
        }
        Ok(Pid::from_child(&agent))
    }
}

/// Takes over a descriptor this process was started with.
pub(super) fn adopt(descriptor: RawFd) -> io::Result<OwnedFd> {
    if descriptor <= 2 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: named on the command line for this purpose, and taken once.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    match fcntl_getfd(&descriptor) {
        Ok(_) => Ok(descriptor),
        Err(errno) => {
            // Not open, so not to be closed either.
            std::mem::forget(descriptor);
            Err(errno.into())
        }
    }
}

/// Runs the agent: the child of [`super::run`]. Returns when the sandbox is to end, or when
/// the agent cannot go on.
pub fn run(options: AgentOptions) -> Result<ExitCode, InitError> {
    let descriptor = options.listener;
    let listener = adopt(descriptor).map_err(|source| InitError::Descriptor { descriptor, source })?;
    fcntl_setfd(&listener, FdFlags::CLOEXEC).map_err(InitError::kernel("listening socket"))?;
    // An agent without its init would be one that nobody restarts or ends.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(InitError::kernel("parent-death signal"))?;
    let first_connection = options
        .first_connection
        .map(FirstConnection::adopt)
        .transpose()
        .map_err(InitError::kernel("first connection"))?;
    let kills = options.kills.map(|kills| adopt_file(kills, "count of kills")).transpose()?;
    let lease = options.lease.map(|lease| adopt_file(lease, "lease")).transpose()?;
    let key = read_key()?;
    ignore_polite_signals();
    bound_memory();
    // The provider makes it; where it did not, commands say so.
    let _ = std::fs::create_dir_all(&options.workspace);
    let image_environment = match options.image_environment {
        true => crate::environment::of_image(std::env::vars_os()),
        false => BTreeMap::new(),
    };
    let config = Config {
        limits: options.limits,
        kills,
        lease,
        scope: options.scope,
        silence_limit: options.silence_limit,
        image_environment,
        ..Config::new(options.workspace, key)
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(crate::threads::THREADS)
        .thread_stack_size(STACK_BYTES)
        // Kept for ever: in a sandbox at its process limit no new one could be started, and
        // they are what ends a fork bomb.
        .thread_keep_alive(Duration::from_secs(u64::from(u32::MAX)))
        .build()
        .map_err(InitError::kernel("runtime"))?;
    let ended = runtime.block_on(async {
        tokio::task::spawn_blocking(|| ()).await.map_err(io::Error::from)?;
        let listener = std::os::unix::net::UnixListener::from(listener);
        listener.set_nonblocking(true)?;
        let socket = UnixListenerStream::new(UnixListener::from_std(listener)?);
        let first = first_connection.map(open_pipes).transpose()?;
        let incoming = tokio_stream::iter(first.map(|first| Ok(Either::Right(first))))
            .chain(socket.map(|connection| connection.map(Either::Left)));
        Ok(Agent::new(config).serve(incoming).await)
    });
    match ended.map_err(InitError::kernel::<io::Error>("serving"))? {
        Ended::LeaseOver => Ok(ExitCode::from(crate::EXIT_LEASE_OVER)),
        Ended::NoMoreConnections => Ok(ExitCode::SUCCESS),
    }
}

/// A file that init shares with the agent, and nothing that the agent starts.
fn adopt_file(descriptor: RawFd, step: &'static str) -> Result<Arc<File>, InitError> {
    let file = adopt(descriptor).map_err(|source| InitError::Descriptor { descriptor, source })?;
    fcntl_setfd(&file, FdFlags::CLOEXEC).map_err(InitError::kernel(step))?;
    Ok(Arc::new(File::from(file)))
}

/// A connection over two pipes.
fn open_pipes(connection: FirstConnection) -> io::Result<Join<pipe::Receiver, pipe::Sender>> {
    let (input, output) = connection.into_parts();
    for end in [&input, &output] {
        fcntl_setfd(end, FdFlags::CLOEXEC)?;
    }
    Ok(tokio::io::join(pipe::Receiver::from_owned_fd(input)?, pipe::Sender::from_owned_fd(output)?))
}

/// Init writes it to standard input, which is empty for ever after.
fn read_key() -> Result<Key, InitError> {
    let mut text = Vec::new();
    io::stdin().lock().take(1024).read_to_end(&mut text).map_err(InitError::kernel("key"))?;
    let null = std::fs::File::open("/dev/null").map_err(InitError::kernel("/dev/null"))?;
    // SAFETY: descriptor 0 is only ever used as standard input.
    if unsafe { libc::dup2(null.as_raw_fd(), 0) } < 0 {
        return Err(InitError::kernel("/dev/null")(io::Error::last_os_error()));
    }
    key::from_hex(&text).ok_or(InitError::Key)
}

/// A `kill -TERM -1` in the sandbox is meant for its programs. Init uses SIGKILL.
fn ignore_polite_signals() {
    // SAFETY: an all-zero set is an empty set. Init waits for signals with some of them blocked.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &std::mem::zeroed(), std::ptr::null_mut()) };
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: no handler is installed.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// glibc would give every thread a heap of its own, each of which keeps what it once had.
fn bound_memory() {
    // SAFETY: called before there are other threads.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}
