//! Starting a sandbox: the server's side.
//!
//! `libcontainer` forks, changes namespaces and moves itself between control groups; none of
//! that can be done from inside a server with threads. So every launch is one short-lived,
//! single-threaded helper process ([`helper`]), which asks the kernel to be killed when the
//! server dies.
//!
//! ```text
//!  server                                    helper
//!  ── request, one line of JSON ──────────►  socket, user namespace, disk
//!  moves the helper to its control group     (leaves nothing when killed)
//!  ◄─ network namespace, if connected ─────  (while the disk is made ready)
//!  ── "grouped" ──────────────────────────►  mounts, namespaces
//!  ── "connected", if it is to be ────────►  agent
//!  ◄──────────── answer, one line of JSON ─  ends
//! ```

pub mod helper;
mod identity;
mod kernel;
mod mounts;
mod request;
mod rootfs;
mod socket;
mod spec;
mod stage;
mod unprivileged;
mod user_namespace;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) use helper::die_with_server;
pub(crate) use identity::write as write_identity;
use request::{CONNECTED, GROUPED, LaunchReply};
pub(crate) use request::{DiskContent, LaunchRequest};
pub use request::{LaunchStep, StepTiming};
pub(crate) use spec::{CPU_PERIOD, cpu_quota, max_pids};
pub(crate) use unprivileged::{enter_user_namespace, noted as noted_init};

use crate::options::HelperCommand;
use crate::process::{ProcessIdentity, wait_readable};

/// How long a launch may take. One takes some 20 ms on an idle machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// What comes before the installation's id in a helper's arguments, by which a helper that
/// was left behind is found.
pub(crate) const INSTALLATION_FLAG: &str = "--installation";
/// What comes before the workspace's id.
pub(crate) const WORKSPACE_FLAG: &str = "--workspace";

/// How much of a helper's answer is read.
const MAX_ANSWER: usize = 64 << 10;

/// A sandbox whose agent has been started.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) init: ProcessIdentity,
    pub(crate) steps: Vec<StepTiming>,
}

/// Why a sandbox could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    #[error("the launch helper {program} cannot be started: {error}")]
    Spawn { program: String, error: io::Error },
    #[error("{step}: {reason}")]
    Step { step: LaunchStep, reason: String },
    #[error("the launch helper ended without an answer ({status}): {stderr}")]
    Silent { status: String, stderr: String },
    #[error("no answer within {LIMIT:?}")]
    TimedOut,
}

/// Runs one helper to its end. Blocks, and must be called from the thread that will see it
/// through: the kernel kills the helper when the thread that started it ends.
///
/// On an error processes of the sandbox may be left; they are in its control group.
pub(crate) fn launch(
    command: &HelperCommand,
    request: &LaunchRequest,
    connect: &Connect<'_>,
) -> Result<Launched, LaunchError> {
    let started = Instant::now();
    let deadline = started + LIMIT;
    let mut child = start(command, request)
        .map_err(|error| LaunchError::Spawn { program: command.program.display().to_string(), error })?;
    let answer = converse(&mut child, request, connect, deadline);
    if !matches!(answer, Ok(Some(LaunchReply::Launched { .. }))) {
        // Has ended, or is to end.
        let _ = child.kill();
    }
    let status = child.wait();
    match answer {
        Ok(Some(LaunchReply::Launched { init, mut steps })) => {
            let inside: u64 = steps.iter().map(|timing| timing.micros).sum();
            let micros = (started.elapsed().as_micros() as u64).saturating_sub(inside);
            steps.insert(0, StepTiming { step: LaunchStep::HelperProcess, micros });
            Ok(Launched { init, steps })
        }
        Ok(Some(LaunchReply::Failed { step, reason })) => Err(LaunchError::Step { step, reason }),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(LaunchError::TimedOut),
        Ok(Some(LaunchReply::Network { .. }) | None) | Err(_) => Err(LaunchError::Silent {
            status: status.map_or_else(|error| error.to_string(), |status| status.to_string()),
            stderr: child.stderr.take().map(read_waiting).unwrap_or_default(),
        }),
    }
}

fn start(command: &HelperCommand, request: &LaunchRequest) -> io::Result<Child> {
    Command::new(&command.program)
        .args(&command.args)
        .arg(INSTALLATION_FLAG)
        .arg(request.installation.to_string())
        .arg(WORKSPACE_FLAG)
        .arg(request.workspace.to_string())
        // Nothing of the server's environment is the sandbox's business.
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// Sends the request and waits for the answer; `None` when the helper ended without one.
fn converse(
    child: &mut Child,
    request: &LaunchRequest,
    connect: &Connect<'_>,
    deadline: Instant,
) -> io::Result<Option<LaunchReply>> {
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else { return Ok(None) };
    let mut answers = Answers { stdout, read: Vec::new() };
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    // A helper that has failed by now does not listen any more; it says why.
    let _ = stdin.write_all(&line);
    let grouped = request.cgroups.move_to_launch_group(&request.group, child.id());
    if grouped.is_ok() {
        let _ = stdin.write_all(GROUPED.as_bytes());
    } else {
        drop(stdin);
        let answer = answers.last(deadline)?;
        return match (answer, grouped) {
            // It was given up because of this.
            (None | Some(LaunchReply::Failed { step: LaunchStep::Cgroup, .. }), Err(error)) => {
                Ok(Some(LaunchReply::Failed { step: LaunchStep::Cgroup, reason: error.to_string() }))
            }
            (answer, _) => Ok(answer),
        };
    }
    let answer = answers.next(deadline)?;
    let Some(LaunchReply::Network { descriptor }) = answer else { return Ok(answer) };
    let failed = |reason| Ok(Some(LaunchReply::Failed { step: LaunchStep::Network, reason }));
    let connected = File::open(format!("/proc/{}/fd/{descriptor}", child.id()))
        .map_err(|error| error.to_string())
        .and_then(|namespace| connect(namespace.into()));
    match connected {
        Ok(()) => {
            let _ = stdin.write_all(CONNECTED.as_bytes());
            drop(stdin);
            answers.next(deadline)
        }
        // Unless it has failed before, for a reason of its own.
        Err(reason) => {
            drop(stdin);
            match answers.next(deadline)? {
                Some(LaunchReply::Failed { step, reason }) if step != LaunchStep::Network => {
                    Ok(Some(LaunchReply::Failed { step, reason }))
                }
                _ => failed(reason),
            }
        }
    }
}

/// Connects a sandbox whose network namespace this is.
pub(crate) type Connect<'a> = dyn Fn(OwnedFd) -> Result<(), String> + 'a;

/// What a helper says, line by line. Not until the end of the stream: a stuck child of the
/// helper would hold it open.
struct Answers {
    stdout: ChildStdout,
    read: Vec<u8>,
}

impl Answers {
    fn next(&mut self, deadline: Instant) -> io::Result<Option<LaunchReply>> {
        let mut part = [0; 4096];
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Ok(serde_json::from_slice(&line).ok());
            }
            if !wait_readable(&self.stdout, deadline)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match self.stdout.read(&mut part)? {
                0 => return Ok(None),
                length if self.read.len() + length > MAX_ANSWER => return Ok(None),
                length => self.read.extend_from_slice(&part[..length]),
            }
        }
    }

    /// The answer of a helper that is not going to be connected.
    fn last(&mut self, deadline: Instant) -> io::Result<Option<LaunchReply>> {
        match self.next(deadline)? {
            Some(LaunchReply::Network { .. }) => self.next(deadline),
            answer => Ok(answer),
        }
    }
}

/// What is in a pipe now, and no more.
fn read_waiting(mut pipe: impl Read + std::os::fd::AsFd) -> String {
    let mut text = [0; 2048];
    let length = match wait_readable(&pipe, Instant::now()) {
        Ok(true) => pipe.read(&mut text).unwrap_or(0),
        _ => 0,
    };
    String::from_utf8_lossy(&text[..length]).trim().to_owned()
}
