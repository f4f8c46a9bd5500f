//! A command's process between its start and its program. It shares memory with its supervisor, and
//! with that mostly the agent's: see there for what may be done here.

#![expect(unsafe_code, reason = "execve and signal dispositions have no safe form")]

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::OnceLock;

use rustix::io::Errno;

use super::image::{Identity, Image};
use super::raw;
use super::report::Step;

/// Where a command finds its text, when that is too long for an argument.
pub(super) const SCRIPT_FD: RawFd = 3;

/// The last that can be. The kernel's own word for it is the largest unsigned number, which gVisor takes
/// for a negative one and refuses.
pub(super) const LAST_FD: usize = i32::MAX as usize;

/// Makes commands better victims for the OOM killer than init and agent. Raising one's own
/// score needs no privilege, lowering it does, so the agent cannot make itself a worse one.
const OOM_SCORE_ADJUST: &[u8] = b"500";

/// The numbers of what a command has open; see [`super::supervisor::Streams`].
#[derive(Clone, Copy)]
pub(super) struct Wires {
    pub(super) stdin: RawFd,
    pub(super) stdout: RawFd,
    pub(super) stderr: RawFd,
    pub(super) script: Option<RawFd>,
    pub(super) is_terminal: bool,
}

/// Everything that is to be so before the program begins. `dispositions` are the signals that
/// something is done about, see [`dispositions`].
pub(super) fn prepare(image: &Image, wires: Wires, dispositions: u64) -> Result<(), (Step, Errno)> {
    let detach = |errno| (Step::Detach, errno);
    rustix::process::setsid().map_err(detach)?;
    if wires.is_terminal {
        // SAFETY: copied with the table of descriptors, so it is open.
        let terminal = unsafe { BorrowedFd::borrow_raw(wires.stdin) };
        rustix::process::ioctl_tiocsctty(terminal).map_err(detach)?;
    }
    wire(wires).map_err(detach)?;
    raise_oom_score();
    if let Some(limit) = image.process_limit {
        limit_processes(limit);
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    if let Some(identity) = &image.identity {
        switch_to(identity).map_err(|errno| (Step::SwitchUser, errno))?;
    }
    // As the account that will work there: what it may not enter is refused here.
    rustix::process::chdir(&image.folder).map_err(|errno| (Step::EnterFolder, errno))?;
    reset_signals(dispositions);
    Ok(())
}

fn wire(wires: Wires) -> Result<(), Errno> {
    let to = |from: RawFd, to: RawFd| {
        // Onto itself it would be refused; then only its flag is to go.
        if from == to {
            // SAFETY: only this process's own table changes (no CLONE_FILES).
            return unsafe { raw::call(libc::SYS_fcntl, [to as usize, libc::F_SETFD as usize, 0, 0]) };
        }
        // SAFETY: as above. Rust's runtime keeps 0 to 2 open, so no source is overwritten before it is used.
        unsafe { raw::call(libc::SYS_dup3, [from as usize, to as usize, 0, 0]) }
    };
    to(wires.stdin, 0)?;
    to(wires.stdout, 1)?;
    to(wires.stderr, 2)?;
    let mut first_private = SCRIPT_FD;
    if let Some(script) = wires.script {
        to(script, SCRIPT_FD)?;
        first_private += 1;
    }
    // All of ours close on exec by themselves; this is for hosts of the library that forget.
    let rest = [first_private as usize, LAST_FD, libc::CLOSE_RANGE_CLOEXEC as usize, 0];
    // SAFETY: marks descriptors of this process, closes none.
    let _ = unsafe { raw::call(libc::SYS_close_range, rest) };
    Ok(())
}

/// Where the file is missing or read-only the OOM killer decides by itself.
fn raise_oom_score() {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = open(c"/proc/self/oom_score_adj", flags, Mode::empty()) {
        let _ = rustix::io::write(&file, OOM_SCORE_ADJUST);
        // It closes when the program begins: a call less before that.
        std::mem::forget(file);
    }
}

/// Of the command and all that it starts; the agent itself can always start another. It cannot be
/// raised again without a privilege that nobody has.
fn limit_processes(limit: u64) {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Rlimit { current: Some(limit), maximum: Some(limit) };
    // Refused only where a lower one is in force already.
    let _ = setrlimit(Resource::Nproc, limit);
}

/// The calls of this thread only: glibc's would look for other threads to switch.
fn switch_to(identity: &Identity) -> Result<(), Errno> {
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    set_thread_groups(&identity.groups)?;
    set_thread_res_gid(identity.gid, identity.gid, identity.gid)?;
    set_thread_res_uid(identity.uid, identity.uid, identity.uid)
}

/// The kernel's own structure for a signal: action, flags, restorer, mask. Not through glibc, which
/// refuses the two signals it keeps for itself.
type Disposition = [u64; 4];

/// The bytes of the mask in it.
const MASK_BYTES: usize = 8;

/// The signals that this process ignores or handles, a bit each. Asked for once: there are sixty-four,
/// and a system call costs twenty microseconds under gVisor. Whatever a host of the library does about
/// one later, a program's start undoes, unless it is to be ignored.
pub(super) fn dispositions() -> u64 {
    static FOUND: OnceLock<u64> = OnceLock::new();
    *FOUND
        .get_or_init(|| (1..=64).filter(|signal| has_disposition(*signal)).fold(0, |all, one| all | bit(one)))
}

fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

fn has_disposition(signal: u32) -> bool {
    let mut found: Disposition = [0; 4];
    let place = (&raw mut found).expose_provenance();
    // SAFETY: asks only, and there is room for the answer.
    let asked = unsafe { raw::call(libc::SYS_rt_sigaction, [signal as usize, 0, place, MASK_BYTES]) };
    asked.is_ok() && found[0] != libc::SIG_DFL as u64
}

/// Ignored signals stay ignored over exec, and the Rust runtime and the agent ignore some. Handlers
/// must not run here: they are the agent's, and so is the memory.
fn reset_signals(dispositions: u64) {
    let default: Disposition = [0; 4];
    let place = (&raw const default).expose_provenance();
    for signal in (1..=64).filter(|signal| dispositions & bit(*signal) != 0) {
        // SAFETY: no handler is installed.
        let _ = unsafe { raw::call(libc::SYS_rt_sigaction, [signal as usize, place, 0, MASK_BYTES]) };
    }
    let mask = [libc::SIG_SETMASK as usize, place, 0, MASK_BYTES];
    // SAFETY: what is all zero is an empty set.
    let _ = unsafe { raw::call(libc::SYS_rt_sigprocmask, mask) };
}

/// Tries each candidate; the last reason that is not "not here" is the one to tell.
pub(super) fn execute(image: &Image, arguments: usize, environment: usize) -> Errno {
    let mut reason = Errno::NOENT;
    for candidate in &image.candidates {
        let place = candidate.as_ptr().expose_provenance();
        // SAFETY: all three are null-terminated and outlive the call.
        let refused = unsafe { raw::call(libc::SYS_execve, [place, arguments, environment, 0]) };
        match refused.err() {
            Some(Errno::NOENT | Errno::NOTDIR) | None => {}
            // Not executable here; perhaps further along the path.
            Some(Errno::ACCESS) => reason = Errno::ACCESS,
            Some(errno) => return errno,
        }
    }
    reason
}
