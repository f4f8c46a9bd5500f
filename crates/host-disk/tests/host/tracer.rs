//! Kills a process between two of its calls to the kernel.
#![expect(unsafe_code, reason = "tracing is made of calls that no library offers safely")]

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use libc::{c_int, c_long, c_void, pid_t};

/// Calls after which nothing on the host is different.
const HARMLESS: [c_long; 20] = [
    libc::SYS_brk,
    libc::SYS_clock_nanosleep,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getrandom,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_newfstatat,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_sched_yield,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_write,
];

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Killed after this many calls; the number of the last one.
    Killed(c_long),
    /// It was done before.
    Done,
}

/// Runs one operation in a process of its own and kills that after so many calls to the kernel.
pub(crate) fn run_and_kill_after(calls: usize, arguments: &[&Path]) -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_emergent-disk-steps"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    // SAFETY: the child makes one call to the kernel.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let mut child = command.spawn().unwrap();
    let outcome = follow(child.id() as pid_t, calls);
    let ended = child.wait().unwrap();
    assert!(outcome != Outcome::Done || ended.success(), "it has failed by itself: {ended}");
    outcome
}

/// Follows it to its end.
fn follow(pid: pid_t, calls: usize) -> Outcome {
    // Stopped by its own execve.
    assert_eq!(wait(pid), Some(libc::SIGTRAP));
    let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESYSGOOD;
    trace(libc::PTRACE_SETOPTIONS, pid, options as usize);
    // Up to where it begins.
    loop {
        trace(libc::PTRACE_CONT, pid, 0);
        match wait(pid) {
            Some(libc::SIGSTOP) => break,
            Some(_) => {}
            None => return Outcome::Done,
        }
    }
    let mut seen = 0;
    loop {
        trace(libc::PTRACE_SYSCALL, pid, 0);
        if wait(pid).is_none() {
            return Outcome::Done;
        }
        let call = call_of(pid);
        trace(libc::PTRACE_SYSCALL, pid, 0);
        if wait(pid).is_none() {
            return Outcome::Done;
        }
        seen += usize::from(!HARMLESS.contains(&call));
        if seen == calls {
            // SAFETY: the process is a child that nobody has waited for.
            assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
            // It may be seen stopped once more before it ends.
            while wait(pid).is_some() {}
            return Outcome::Killed(call);
        }
    }
}

/// The signal it is stopped by; `None` when it has ended.
fn wait(pid: pid_t) -> Option<c_int> {
    let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the kernel writes one `siginfo_t`. A process that has ended stays to be reaped.
    let status = unsafe {
        let flags = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT;
        assert_eq!(libc::waitid(libc::P_PID, pid as libc::id_t, info.as_mut_ptr(), flags), 0);
        let info = info.assume_init();
        match info.si_code {
            libc::CLD_TRAPPED | libc::CLD_STOPPED => Some(info.si_status()),
            _ => None,
        }
    }?;
    // SAFETY: takes note of the stop that was just seen.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
    Some(status & 0x7f)
}

/// Which call it is about to make.
fn call_of(pid: pid_t) -> c_long {
    let mut info = std::mem::MaybeUninit::<libc::ptrace_syscall_info>::zeroed();
    let size = size_of::<libc::ptrace_syscall_info>();
    // SAFETY: the kernel writes at most `size` bytes.
    unsafe {
        let written = libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, pid, size, info.as_mut_ptr());
        assert!(written > 0, "{}", std::io::Error::last_os_error());
        let info = info.assume_init();
        assert_eq!(info.op, libc::PTRACE_SYSCALL_INFO_ENTRY);
        info.u.entry.nr as c_long
    }
}

fn trace(request: libc::c_uint, pid: pid_t, data: usize) {
    // SAFETY: none of these requests has a pointer.
    let done = unsafe { libc::ptrace(request, pid, std::ptr::null_mut::<c_void>(), data as *mut c_void) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}
