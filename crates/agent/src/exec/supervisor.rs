//! The life of a supervisor: the process between the agent and a command.
//!
//! It never returns and never executes anything; it starts the command, sleeps until that has become
//! its program or failed, and then waits for whatever ends below it.
//!
//! Neither process copies memory: a supervisor shares the agent's (`CLONE_VM`), and a command its
//! supervisor's until it executes its program (`CLONE_VFORK` besides). A fork would have to copy what
//! the agent has mapped, and every page that either touches afterwards costs a fault; under gVisor
//! that was thirty milliseconds of each command. The price is that this code is in the agent's way:
//!
//! - It touches nothing but its [`Cradle`]: nothing here allocates, locks or unwinds, and there are
//!   plain system calls only, without libc (see [`super::raw`]).
//! - The cradle outlives both processes: it is given back when the supervisor has been waited for,
//!   and otherwise never.
//! - A command of another account gets a supervisor with a copy. It is that account's before it
//!   executes anything, and nobody who could look at it then may see the agent's memory.
//! - Should the kernel's OOM killer choose the agent, it ends whoever shares its memory. Commands are
//!   chosen first, see [`child`].

#![expect(unsafe_code, reason = "clone and descriptors of another process have no safe form")]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions};

use super::child::{self, Wires};
use super::image::Image;
use super::raw;
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

impl Streams {
    fn wires(&self) -> Wires {
        Wires {
            stdin: self.stdin.as_raw_fd(),
            stdout: self.stdout.as_raw_fd(),
            stderr: self.stderr.as_raw_fd(),
            script: self.script.as_ref().map(AsRawFd::as_raw_fd),
            is_terminal: self.is_terminal,
        }
    }
}

/// What supervisors call themselves, and those of commands that outlive their caller: init
/// tells them apart when their agent has died.
pub(crate) const SUPERVISOR: &CStr = c"supervisor";
pub(super) const SUPERVISOR_OF_LASTING: &CStr = c"supervisor-bg";

/// Stack of a supervisor, and of its command until that executes its program. Hardly any of it is
/// ever touched, so hardly any of it is memory.
const STACK_BYTES: usize = 32 << 10;

/// The memory that a supervisor and its command use. Dropping it leaks it: processes that a runtime
/// leaves behind still use theirs.
pub(super) struct Cradle(NonNull<Content>);

// SAFETY: this process only makes it and frees it; who uses it is another one.
unsafe impl Send for Cradle {}

struct Content {
    name: &'static CStr,
    image: Arc<Image>,
    /// As `execve` wants them: pointers into the image, the last one null.
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    /// Numbers, because the agent closes its own long before.
    wires: Wires,
    reports: RawFd,
    /// Signals to reset, see [`child::dispositions`].
    dispositions: u64,
    /// Where the command's process says why it failed.
    failure: Cell<Option<(Step, Errno)>>,
    supervisor_stack: Stack,
    command_stack: Stack,
}

impl Cradle {
    /// Gives the memory back. Only when its supervisor has been waited for.
    pub(super) fn free(self) {
        // SAFETY: made by `Box::into_raw`, and freed once, since this takes the only one. The supervisor
        // is gone, and it left only after the command had its program.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Used from its end down, never initialised.
struct Stack(Box<[MaybeUninit<u8>]>);

impl Stack {
    fn new() -> Self {
        Self(Box::new_uninit_slice(STACK_BYTES))
    }

    /// Its end, aligned as it has to be.
    fn top(&self) -> *mut u8 {
        let end = self.0.as_ptr_range().end.cast::<u8>().cast_mut();
        end.wrapping_sub(end.addr() % 16)
    }
}

/// Starts a supervisor that starts `image` and reports to `reports`. Returns its process id, which is
/// a child to be waited for, before the command runs.
pub(super) fn start(
    image: &Arc<Image>,
    is_lasting: bool,
    streams: &Streams,
    reports: &OwnedFd,
) -> Result<(Pid, Cradle), Errno> {
    let content = Box::new(Content {
        name: if is_lasting { SUPERVISOR_OF_LASTING } else { SUPERVISOR },
        arguments: pointers(&image.arguments),
        environment: pointers(&image.environment),
        wires: streams.wires(),
        reports: reports.as_raw_fd(),
        dispositions: child::dispositions(),
        failure: Cell::new(None),
        supervisor_stack: Stack::new(),
        command_stack: Stack::new(),
        image: image.clone(),
    });
    let memory = if image.identity.is_some() { 0 } else { libc::CLONE_VM };
    let top = content.supervisor_stack.top();
    let content = Box::into_raw(content);
    // No handler of the agent's may run in the child.
    let mask = block_all_signals();
    // SAFETY: the stack is aligned; `Cradle` keeps it and the content until the process has gone. What
    // the child does is all in this module, which does nothing that it must not.
    let cloned = unsafe { raw::clone(memory | libc::SIGCHLD, top, supervise, content.cast()) };
    set_signal_mask(&mask);
    // SAFETY: it came from a box.
    let cradle = Cradle(unsafe { NonNull::new_unchecked(content) });
    match cloned.map(|pid| i32::try_from(pid).ok().and_then(Pid::from_raw)) {
        Ok(Some(pid)) => Ok((pid, cradle)),
        Ok(None) => Err(Errno::INVAL),
        Err(errno) => {
            cradle.free();
            Err(errno)
        }
    }
}

/// Pointers to strings, and a null one after them. Valid as long as the strings.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

/// All signals are blocked here: a supervisor goes only when everything below it has gone.
extern "C" fn supervise(argument: *mut c_void) -> ! {
    // SAFETY: `start` passes a `Content` that lives until this process has gone; nobody else uses it but
    // the command's process, while this one sleeps.
    let content = unsafe { &*argument.cast_const().cast::<Content>() };
    // Without it orphans would go to init. Every kernel since 3.4 has it. Which number is said is all the same.
    let _ = rustix::process::set_child_subreaper(Some(Pid::INIT));
    let _ = rustix::thread::set_name(content.name);
    // The agent's folder must not be kept busy.
    let _ = rustix::process::chdir(c"/");
    // SAFETY: another stack of the same cradle; this process sleeps until the command has left it.
    let cloned = unsafe {
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        raw::clone(flags, content.command_stack.top(), become_command, argument)
    };
    // SAFETY: copied with the table of descriptors, so it is open.
    let reports = unsafe { BorrowedFd::borrow_raw(content.reports) };
    let command = match (cloned, content.failure.get()) {
        (Err(errno), _) => {
            tell(reports, Report::Failed { step: Step::Fork, errno });
            raw::exit(0)
        }
        (_, Some((step, errno))) => {
            tell(reports, Report::Failed { step, errno });
            raw::exit(0)
        }
        (Ok(command), None) => i32::try_from(command).unwrap_or(0),
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
            Err(_) => raw::exit(0),
        }
    }
}

/// A report that cannot be delivered has no reader: the agent is gone, and init is next.
fn tell(reports: BorrowedFd<'_>, report: Report) {
    let _ = rustix::io::write(reports, &report.to_bytes());
}

/// The memory of the largest process that was waited for, by this process or by one that it
/// waited for. A process has on record what it had before it became its program, and that was
/// this one's, which is the agent's: what is not more than that says nothing.
fn peak_kib() -> i32 {
    let of = |whose: c_int| {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        let place = usage.as_mut_ptr().expose_provenance();
        // SAFETY: a valid place to put them.
        match unsafe { raw::call(libc::SYS_getrusage, [whose as usize, place, 0, 0]) } {
            // SAFETY: plain numbers, all zero is a valid value; the kernel has filled it in.
            Ok(_) => unsafe { usage.assume_init() }.ru_maxrss,
            Err(_) => 0,
        }
    };
    let (own, peak) = (of(libc::RUSAGE_SELF), of(libc::RUSAGE_CHILDREN));
    if peak > own { i32::try_from(peak).unwrap_or(i32::MAX) } else { 0 }
}

/// Makes `kept` file descriptor 0 and closes all others.
fn keep_only(kept: BorrowedFd<'_>) {
    // SAFETY: plain descriptor calls on a table of this process's own, in which nothing else is used.
    unsafe {
        let _ = raw::call(libc::SYS_dup3, [kept.as_raw_fd() as usize, 0, 0, 0]);
        if raw::call(libc::SYS_close_range, [1, child::LAST_FD, 0, 0]).is_err() {
            (1..1024).for_each(|fd| {
                let _ = raw::call(libc::SYS_close, [fd, 0, 0, 0]);
            });
        }
    }
}

/// The command's process, up to its program. Goes on only where that fails.
extern "C" fn become_command(argument: *mut c_void) -> ! {
    // SAFETY: as in `supervise`, which sleeps meanwhile.
    let content = unsafe { &*argument.cast_const().cast::<Content>() };
    let failure = match child::prepare(&content.image, content.wires, content.dispositions) {
        Ok(()) => {
            let (arguments, environment) = (content.arguments.as_ptr(), content.environment.as_ptr());
            let reason = child::execute(
                &content.image,
                arguments.expose_provenance(),
                environment.expose_provenance(),
            );
            (Step::Execute, reason)
        }
        Err(failure) => failure,
    };
    content.failure.set(Some(failure));
    raw::exit(127)
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
