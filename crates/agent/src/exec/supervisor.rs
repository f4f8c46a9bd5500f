//! The life of a supervisor: the process between the agent and a command.
//!
//! It is a fork of the agent that never returns and never executes anything. Everything here
//! runs after a fork of a process with threads, so nothing allocates, locks or unwinds: plain
//! system calls only. The command itself is started by a `vfork`-like clone, which copies no
//! memory; the supervisor sleeps until the command has become its program or failed.

#![expect(unsafe_code, reason = "fork, clone, execve and signal masks have no safe form")]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions};

use super::image::{Identity, Image};
use super::report::{Report, Step};

/// What a command has open: nothing to read and two pipes to print to, or a terminal; and, when its text is
/// too long for an argument, that text.
pub(super) struct Streams {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    pub(super) script: Option<OwnedFd>,
    /// All three are a terminal, which is to be the session's.
    pub(super) is_terminal: bool,
}

/// Where a command finds [`Streams::script`].
pub(super) const SCRIPT_FD: RawFd = 3;

/// What supervisors call themselves, and those of commands that outlive their caller: init
/// tells them apart when their agent has died.
pub(crate) const SUPERVISOR: &CStr = c"supervisor";
pub(super) const SUPERVISOR_OF_LASTING: &CStr = c"supervisor-bg";

/// Stack of the command until it executes its program; its own, since it shares all memory
/// with the sleeping supervisor.
const STACK_BYTES: usize = 64 << 10;

/// Makes commands better victims for the OOM killer than init and agent. Raising one's own
/// score needs no privilege, lowering it does, so the agent cannot make itself a worse one.
const OOM_SCORE_ADJUST: &[u8] = b"500";

/// Forks a supervisor that starts `image` and reports to `reports`. Returns its process id,
/// which is a child to be waited for, before the command runs.
pub(super) fn start(image: &Image, streams: &Streams, reports: &OwnedFd) -> io::Result<Pid> {
    let mut stack = vec![0u8; STACK_BYTES];
    let (arguments, environment) = (pointers(&image.arguments), pointers(&image.environment));
    let starting = Starting {
        name: if image.is_lasting { SUPERVISOR_OF_LASTING } else { SUPERVISOR },
        image,
        arguments: &arguments,
        environment: &environment,
        streams,
        failure: Cell::new(None),
    };
    // No handler of the agent's may run in the child between here and its own mask.
    let mask = block_all_signals();
    // SAFETY: the child calls `supervise`, which never returns and, as the module says, does
    // nothing that a fork of a process with threads may not do.
    let forked = match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => supervise(&starting, reports.as_fd(), &mut stack),
        pid => Pid::from_raw(pid).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData)),
    };
    set_signal_mask(&mask);
    forked
}

/// Pointers to strings, and a null one after them. Valid as long as the strings.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

/// What the command's process needs, and where it says why it failed. It shares this memory.
struct Starting<'a> {
    name: &'static CStr,
    image: &'a Image,
    /// As `execve` wants them: pointers, the last one null.
    arguments: &'a [*const c_char],
    environment: &'a [*const c_char],
    streams: &'a Streams,
    failure: Cell<Option<(Step, Errno)>>,
}

/// All signals are blocked here: a supervisor goes only when everything below it has gone.
fn supervise(starting: &Starting<'_>, reports: BorrowedFd<'_>, stack: &mut [u8]) -> ! {
    // Without it orphans would go to init. Every kernel since 3.4 has it.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let _ = rustix::thread::set_name(starting.name);
    // The agent's folder must not be kept busy.
    let _ = rustix::process::chdir(c"/");
    // SAFETY: the stack is used from its end down and is 16-byte aligned there; the child
    // reads `starting` while this process sleeps in clone (CLONE_VFORK), so the borrows hold.
    let cloned = unsafe {
        let top = stack.as_mut_ptr().add(stack.len());
        let top = top.sub(top.addr() % 16);
        let argument = std::ptr::from_ref(starting).cast_mut().cast();
        libc::clone(become_command, top.cast(), libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD, argument)
    };
    let command = match (cloned, starting.failure.get()) {
        (-1, _) => {
            tell(reports, Report::Failed { step: Step::Fork, errno: last_errno() });
            exit(0)
        }
        (_, Some((step, errno))) => {
            tell(reports, Report::Failed { step, errno });
            exit(0)
        }
        (command, None) => command,
    };
    tell(reports, Report::Started { pid: command });
    // Pipes end when their last writer closes them; this process must not be one.
    keep_only(reports);
    // SAFETY: `keep_only` has put the report pipe there, for as long as this process lives.
    let reports = unsafe { BorrowedFd::borrow_raw(0) };
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_pid() == command => {
                tell(reports, Report::Exited { status: status.as_raw(), peak_kib: peak_kib() });
            }
            Ok(Some((_, status))) if status.terminating_signal() == Some(libc::SIGKILL) => {
                tell(reports, Report::Killed);
            }
            Ok(_) | Err(Errno::INTR) => {}
            // No children: everything the command started is over.
            Err(_) => exit(0),
        }
    }
}

/// A report that cannot be delivered has no reader: the agent is gone, and init is next.
fn tell(reports: BorrowedFd<'_>, report: Report) {
    let _ = rustix::io::write(reports, &report.to_bytes());
}

/// The memory of the largest process that was waited for, by this process or by one that it
/// waited for. A process has on record what it had before it became its program, and that was
/// this one's: what is not more than that says nothing.
fn peak_kib() -> i32 {
    let of = |whose: c_int| {
        // SAFETY: plain numbers, all zero is a valid value; the kernel fills it in.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: a valid place to put them.
        match unsafe { libc::getrusage(whose, &raw mut usage) } {
            0 => usage.ru_maxrss,
            _ => 0,
        }
    };
    let (own, peak) = (of(libc::RUSAGE_SELF), of(libc::RUSAGE_CHILDREN));
    if peak > own { i32::try_from(peak).unwrap_or(i32::MAX) } else { 0 }
}

/// Makes `kept` file descriptor 0 and closes all others.
fn keep_only(kept: BorrowedFd<'_>) {
    // SAFETY: plain descriptor calls; every owner of one of these is in a copy of memory that
    // is never used again.
    unsafe {
        libc::dup2(kept.as_raw_fd(), 0);
        if libc::syscall(libc::SYS_close_range, 1, c_uint::MAX, 0) != 0 {
            (1..1024).for_each(|fd| {
                libc::close(fd);
            });
        }
    }
}

/// The command's process, up to its program. Returns only on failure.
extern "C" fn become_command(argument: *mut c_void) -> c_int {
    // SAFETY: `supervise` passes a `Starting` that lives until this process has gone.
    let starting = unsafe { &*argument.cast_const().cast::<Starting<'_>>() };
    let failure = match prepare(starting.image, starting.streams) {
        Ok(()) => (Step::Execute, execute(starting)),
        Err(failure) => failure,
    };
    starting.failure.set(Some(failure));
    exit(127)
}

fn prepare(image: &Image, streams: &Streams) -> Result<(), (Step, Errno)> {
    let detach = |errno| (Step::Detach, errno);
    rustix::process::setsid().map_err(detach)?;
    if streams.is_terminal {
        rustix::process::ioctl_tiocsctty(&streams.stdin).map_err(detach)?;
    }
    wire(streams).map_err(detach)?;
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
    reset_signals();
    Ok(())
}

fn wire(streams: &Streams) -> Result<(), Errno> {
    let to = |from: &OwnedFd, to: RawFd| {
        // SAFETY: only this process's own table changes (no CLONE_FILES). Rust's runtime
        // keeps 0 to 2 open, so no source is overwritten before it is used.
        match unsafe { libc::dup2(from.as_raw_fd(), to) } {
            -1 => Err(last_errno()),
            _ => Ok(()),
        }
    };
    to(&streams.stdin, 0)?;
    to(&streams.stdout, 1)?;
    to(&streams.stderr, 2)?;
    let mut first_private = SCRIPT_FD;
    if let Some(script) = &streams.script {
        to(script, SCRIPT_FD)?;
        // SAFETY: as above. dup2 onto itself would have kept the flag.
        unsafe { libc::fcntl(SCRIPT_FD, libc::F_SETFD, 0) };
        first_private += 1;
    }
    // All of ours close on exec by themselves; this is for hosts of the library that forget.
    // SAFETY: marks descriptors of this process, closes none.
    unsafe { libc::syscall(libc::SYS_close_range, first_private, c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    Ok(())
}

/// Where the file is missing or read-only the OOM killer decides by itself.
fn raise_oom_score() {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(file) = open(c"/proc/self/oom_score_adj", flags, Mode::empty()) {
        let _ = rustix::io::write(file, OOM_SCORE_ADJUST);
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

/// Ignored signals stay ignored over exec, and the Rust runtime and the agent ignore some.
fn reset_signals() {
    // The kernel's own structure (action, flags, restorer, mask), all zero: the default action.
    // Not through glibc, which refuses the two signals it keeps for itself.
    let default = [0u64; 4];
    for signal in 1..=64 {
        // SAFETY: no handler is installed. Refused for the two that have none.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), std::ptr::null::<u64>(), 8)
        };
    }
    // SAFETY: an all-zero set is an empty set.
    set_signal_mask(&unsafe { std::mem::zeroed() });
}

/// Tries each candidate; the last reason that is not "not here" is the one to tell.
fn execute(starting: &Starting<'_>) -> Errno {
    let mut reason = Errno::NOENT;
    for candidate in &starting.image.candidates {
        // SAFETY: all three are null-terminated and outlive the call.
        unsafe {
            libc::execve(candidate.as_ptr(), starting.arguments.as_ptr(), starting.environment.as_ptr());
        }
        match last_errno() {
            Errno::NOENT | Errno::NOTDIR => {}
            // Not executable here; perhaps further along the path.
            Errno::ACCESS => reason = Errno::ACCESS,
            errno => return errno,
        }
    }
    reason
}

fn last_errno() -> Errno {
    // SAFETY: always a valid pointer to this thread's value.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

fn exit(code: c_int) -> ! {
    // SAFETY: ends the process at once; nothing is flushed or unwound.
    unsafe { libc::_exit(code) }
}

fn block_all_signals() -> libc::sigset_t {
    // SAFETY: both sets are initialised by the calls before they are read.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut before = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

fn set_signal_mask(mask: &libc::sigset_t) {
    // SAFETY: a valid set, and nowhere to put the old one.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}
