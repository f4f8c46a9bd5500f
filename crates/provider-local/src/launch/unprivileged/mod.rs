//! Starting a sandbox without root: a user namespace gives an ordinary account the power to
//! make all the others.
//!
//! ```text
//!  helper                                     first process of the sandbox
//!  namespaces; its own account becomes root
//!  fork ───────────────────────────────────►  mounts, new root, limits, fewer privileges
//!  ◄──────────────────────────────── ready ─
//!  init.json: the process, on disk
//!  ── go ──────────────────────────────────►  executes the agent
//! ```
//!
//! There is no control group to find processes by. So nothing of a guest's ever runs before
//! the first process is on record; and when that dies, its whole PID namespace dies with it.
//!
//! What is weaker than with root: the sandbox's root is the server's own account to the host's
//! kernel. Nothing of that account's is mounted but the sandbox's own folder, and every other
//! way to the host (processes, sockets, keys) leads through a namespace. There are no other
//! accounts inside, because one account can map nobody but itself.

mod first_process;
mod root;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, getegid, geteuid};

use super::kernel;
use super::request::LaunchRequest;
use crate::layout::INIT;
use crate::process::ProcessIdentity;

/// What the first process says when it could execute the agent.
const READY: u8 = 1;
/// What it is then told.
const GO: u8 = 2;

/// Moves this process into namespaces of its own, in which its account is root. The PID
/// namespace begins with its next child.
pub(super) fn enter_namespaces() -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    kernel::unshare_everything()?;
    become_root(user, group)
}

/// Moves this process into a user namespace of its own, in which its account is root, and into
/// no other: it may look into every folder of its account's.
pub(crate) fn enter_user_namespace() -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    kernel::unshare_user()?;
    become_root(user, group)
}

fn become_root(user: u32, group: u32) -> io::Result<()> {
    // Without this, a group could be left that a file is closed to.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

/// The first process, before it executes the agent.
pub(super) struct Waiting {
    pid: Pid,
    reports: File,
    go: OwnedFd,
}

/// Starts the first process and waits until it could execute the agent.
pub(super) fn prepare(request: &LaunchRequest) -> io::Result<Waiting> {
    let (reports, tell) = pipe_with(PipeFlags::CLOEXEC)?;
    let (wait, go) = pipe_with(PipeFlags::CLOEXEC)?;
    let Some(pid) = kernel::fork()? else {
        drop((reports, go));
        first_process::become_init(request, File::from(tell), File::from(wait));
    };
    drop((tell, wait));
    let mut waiting = Waiting { pid, reports: File::from(reports), go };
    let mut first = [0];
    match waiting.reports.read(&mut first)? {
        1 if first[0] == READY => Ok(waiting),
        1 => Err(waiting.failure(&first)),
        _ => Err(io::Error::other("the first process ended without a word")),
    }
}

impl Waiting {
    /// Puts the process on record, where [`noted`] finds it, and has it execute the agent.
    pub(super) fn start(mut self, state_folder: &Path) -> io::Result<ProcessIdentity> {
        let identity = ProcessIdentity::of(self.pid.as_raw_nonzero().get())?;
        note(state_folder, &identity)?;
        File::from(self.go.try_clone()?).write_all(&[GO])?;
        let failure = self.failure(&[]);
        match failure.to_string().as_str() {
            "" if identity.is_alive() => Ok(identity),
            "" => Err(io::Error::other("the agent's program could not be executed")),
            _ => Err(failure),
        }
    }

    /// What it says until it has executed the agent or ended; that is not much.
    fn failure(&mut self, begun: &[u8]) -> io::Error {
        let mut text = begun.to_vec();
        let _ = (&mut self.reports).take(2000).read_to_end(&mut text);
        io::Error::other(String::from_utf8_lossy(&text).into_owned())
    }
}

/// The first process of the sandbox's latest launch, if there was one without root.
pub(crate) fn noted(state_folder: &Path) -> Option<ProcessIdentity> {
    serde_json::from_slice(&fs::read(state_folder.join(INIT)).ok()?).ok()
}

fn note(state_folder: &Path, identity: &ProcessIdentity) -> io::Result<()> {
    let partial = state_folder.join(format!(".{INIT}"));
    fs::write(&partial, serde_json::to_vec(identity)?)?;
    fs::rename(partial, state_folder.join(INIT))
}
