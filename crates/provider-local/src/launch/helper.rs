//! The launch helper: a process with one thread that starts one sandbox and ends.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufRead, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use libcontainer::container::Container;
use libcontainer::container::builder::ContainerBuilder;
use libcontainer::error::LibcontainerError;
use libcontainer::oci_spec::OciSpecError;
use libcontainer::syscall::syscall::SyscallType;
use rustix::process::{
    Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};

use super::request::{CONNECTED, GROUPED, LaunchReply, LaunchRequest, LaunchStep, StepTiming};
use super::rootfs::{self, Overmounts};
use super::user_namespace::Namespaces;
use super::{kernel, socket, spec, stage, unprivileged, user_namespace};
use crate::means::Launcher;
use crate::measure::{self, MEASURE_FLAG};
use crate::process::{ProcessIdentity, wait_readable};

/// The number under which the agent inherits its listening socket: the first after standard
/// input, output and error.
pub(crate) const LISTEN_FD: i32 = 3;

/// How long the agent may take from being told to start to being executed.
const EXEC_LIMIT: Duration = Duration::from_secs(10);

/// Open files a process in a sandbox may have unless it asks for more, and at most.
const OPEN_FILES: (u64, u64) = (65_536, 1 << 20);

/// How much more likely the OOM killer takes a process whose memory nothing limits. What the agent
/// starts is still more likely than the agent.
const UNLIMITED_OOM_SCORE: i32 = 250;

/// The whole of a helper: reads a request from standard input, starts the sandbox or measures
/// the disk that it is about, answers on standard output. Must be called before the process has a second thread, and
/// the process must end with the returned code.
pub fn main() -> ExitCode {
    main_observed(|_| {})
}

/// As [`main`], telling `before` which step comes next. For tests that end the helper in the
/// middle of one.
pub fn main_observed(before: impl FnMut(LaunchStep)) -> ExitCode {
    if std::env::args().any(|argument| argument == MEASURE_FLAG) {
        return measure::helper_main();
    }
    let reply = match run(before) {
        Ok(reply) => reply,
        Err(Failure { step, reason }) => LaunchReply::Failed { step, reason },
    };
    let launched = matches!(reply, LaunchReply::Launched { .. });
    let answered = say(&reply);
    if launched && answered.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn say(reply: &LaunchReply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    io::stdout().write_all(&line)?;
    io::stdout().flush()
}

/// A step that failed.
struct Failure {
    step: LaunchStep,
    reason: String,
}

/// Runs steps one after another and notes how long each took.
struct Steps<F> {
    before: F,
    timings: Vec<StepTiming>,
}

impl<F: FnMut(LaunchStep)> Steps<F> {
    fn run<T, E: Error>(
        &mut self,
        step: LaunchStep,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, Failure> {
        (self.before)(step);
        let start = Instant::now();
        let result = work();
        self.timings.push(StepTiming { step, micros: start.elapsed().as_micros() as u64 });
        result.map_err(|error| Failure { step, reason: with_causes(&error) })
    }
}

fn run(before: impl FnMut(LaunchStep)) -> Result<LaunchReply, Failure> {
    let mut steps = Steps { before, timings: Vec::new() };
    let request = steps.run(LaunchStep::Request, || {
        // Taken now, so that nothing this process opens and owns can come to lie there.
        kernel::place_descriptor(File::open("/dev/null")?.into(), LISTEN_FD)?;
        let request = read_request()?;
        die_with_server(request.server)?;
        Ok::<_, io::Error>(request)
    })?;
    steps.run(LaunchStep::Socket, || {
        tame_self(request.launcher)?;
        kernel::place_descriptor(socket::make(&request.state_folder)?, LISTEN_FD)
    })?;
    if request.launcher == Launcher::Unprivileged {
        return run_unprivileged(steps, &request);
    }
    let namespaces = steps.run(LaunchStep::UserNamespace, || {
        let namespaces = user_namespace::make(request.ids, request.connected)?;
        if let Some(network) = &namespaces.network {
            // Connected while the disk is made ready.
            say(&LaunchReply::Network { descriptor: network.as_raw_fd() })?;
        }
        Ok::<_, io::Error>(namespaces)
    })?;
    let user_namespace = &namespaces.user;
    let disk = steps.run(LaunchStep::Disk, || rootfs::mount_disk(&request, user_namespace))?;
    // From here on processes and mounts are made that would outlive this one.
    steps.run(LaunchStep::Cgroup, || wait_for(GROUPED))?;
    steps.run(LaunchStep::RootFs, || {
        let over = Overmounts::clone_from_host(&request)?;
        stage::enter(&request.cgroups, &request.state_folder)?;
        rootfs::assemble(&disk, over)
    })?;
    let (executed, mut container) = steps.run(LaunchStep::Build, || build(&request, &namespaces))?;
    if request.connected {
        steps.run(LaunchStep::Network, || wait_for(CONNECTED))?;
    }
    let init = steps.run(LaunchStep::Start, || start(&mut container, &executed))?;
    Ok(LaunchReply::Launched { init, steps: steps.timings })
}

/// The same without root, and so without control groups and loop devices.
fn run_unprivileged(
    mut steps: Steps<impl FnMut(LaunchStep)>,
    request: &LaunchRequest,
) -> Result<LaunchReply, Failure> {
    steps.run(LaunchStep::UserNamespace, || {
        unprivileged::enter_namespaces()?;
        // Becoming somebody else may have cleared it.
        die_with_server(request.server)
    })?;
    let waiting = steps.run(LaunchStep::Build, || unprivileged::prepare(request))?;
    let init = steps.run(LaunchStep::Start, || waiting.start(&request.state_folder))?;
    Ok(LaunchReply::Launched { init, steps: steps.timings })
}

fn read_request() -> io::Result<LaunchRequest> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Waits until the server has done its part: put this process into the sandbox's control
/// group, or connected the sandbox. That takes the kernel some milliseconds, during which this
/// process does its own part.
fn wait_for(word: &str) -> io::Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    match line.as_str() {
        line if line == word => Ok(()),
        _ => Err(io::Error::other("the server has given up")),
    }
}

/// Asks to be killed when the server dies, and makes sure it has not died already.
pub(crate) fn die_with_server(server: i32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    match getppid() {
        Some(parent) if parent.as_raw_nonzero().get() == server => Ok(()),
        _ => Err(io::Error::other("the server that asked for this sandbox is gone")),
    }
}

/// Sets what the sandbox inherits from this process.
fn tame_self(launcher: Launcher) -> io::Result<()> {
    kernel::leave_session_keyring()?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    // Not zero: that stops no dump that goes to a program of the host's. One does, as nothing
    // of that size can be dumped; and the agent's filter of system calls keeps it at that.
    setrlimit(Resource::Core, Rlimit { current: Some(1), maximum: Some(1) })?;
    // Lowered, never raised: that may not be allowed.
    let maximum = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX).min(OPEN_FILES.1);
    setrlimit(Resource::Nofile, Rlimit { current: Some(maximum.min(OPEN_FILES.0)), maximum: Some(maximum) })?;
    // A server that is protected from the kernel's OOM killer does not protect its guests. Where
    // their memory is not limited, they are to go before it and everything else.
    let score: i32 = fs::read_to_string("/proc/self/oom_score_adj")?.trim().parse().unwrap_or(0);
    let least = if launcher == Launcher::Unprivileged { UNLIMITED_OOM_SCORE } else { 0 };
    if score < least {
        fs::write("/proc/self/oom_score_adj", least.to_string())?;
    }
    Ok(())
}

/// What `libcontainer` could not do, or could not be told.
#[derive(Debug, thiserror::Error)]
enum ContainerError {
    #[error(transparent)]
    Libcontainer(#[from] LibcontainerError),
    #[error(transparent)]
    Spec(#[from] OciSpecError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the agent's program could not be executed")]
    NotExecuted,
    #[error("the agent's program was not executed within {EXEC_LIMIT:?}")]
    TimedOut,
}

/// Makes the sandbox up to the point where the agent could be executed. Also returns the end
/// of a pipe that the sandbox's first process holds until it executes the agent or ends.
fn build(request: &LaunchRequest, namespaces: &Namespaces) -> Result<(OwnedFd, Container), ContainerError> {
    let path = |namespace: &File| format!("/proc/self/fd/{}", namespace.as_raw_fd());
    let spec = spec::for_request(request, path(&namespaces.user), namespaces.network.as_ref().map(path))?;
    let config = serde_json::to_vec(&spec).map_err(io::Error::from)?;
    write_private(&format!("{}/config.json", stage::BUNDLE), &config)?;
    let null = || File::options().read(true).write(true).open("/dev/null");
    let (executed, _held_by_init) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(io::Error::from)?;
    let container = ContainerBuilder::new(request.workspace.to_string(), SyscallType::Linux)
        .with_root_path(stage::STATE)?
        .with_preserved_fds(1)
        // Never a pipe or file of the host's, which a guest could fill.
        .with_stdin(null()?)
        .with_stdout(null()?)
        .with_stderr(null()?)
        .validate_id()?
        .as_init(stage::BUNDLE)
        .with_systemd(false)
        .with_detach(true)
        .build()?;
    Ok((executed, container))
}

/// Has the agent executed and makes sure that it was.
fn start(container: &mut Container, executed: &OwnedFd) -> Result<ProcessIdentity, ContainerError> {
    let init = ProcessIdentity::of(container.state.pid.unwrap_or_default())?;
    container.start()?;
    if !wait_readable(executed.as_fd(), Instant::now() + EXEC_LIMIT)? {
        return Err(ContainerError::TimedOut);
    }
    if init.is_alive() { Ok(init) } else { Err(ContainerError::NotExecuted) }
}

fn write_private(path: &str, content: &[u8]) -> io::Result<()> {
    File::options().write(true).create_new(true).mode(0o600).open(path)?.write_all(content)
}

/// An error with everything that led to it, on one line.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = inner.source();
    }
    text.chars().take(2000).collect()
}
