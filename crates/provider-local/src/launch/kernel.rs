//! The few calls to the kernel that no library offers safely. All are sound only because the
//! helper has one thread.
#![expect(unsafe_code, reason = "fork, unshare and fixed descriptor numbers are unsafe by nature")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::process::Pid;
use rustix::thread::UnshareFlags;

/// Leaves the host's mount namespace for a copy of it.
pub(crate) fn unshare_mounts() -> io::Result<()> {
    // SAFETY: the helper has one thread, so no other thread's view changes under it.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }?)
}

/// Makes `fd` appear under the number `at`, open across `execve`. Whatever had that number is
/// closed, so the caller must own nothing there.
pub(crate) fn place_descriptor(fd: OwnedFd, at: RawFd) -> io::Result<()> {
    if fd.as_raw_fd() == at {
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::empty())?;
        std::mem::forget(fd);
        return Ok(());
    }
    // SAFETY: both are plain numbers; `fd` is open, and nothing in this process owns `at`.
    match unsafe { libc::dup2(fd.as_raw_fd(), at) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Leaves the server's session keyring for a new, empty one: whoever holds a keyring may read
/// what is in it, and it is inherited by everything that is started.
pub(crate) fn leave_session_keyring() -> io::Result<()> {
    // SAFETY: the operation takes a name, for which null is allowed, and touches no memory.
    let joined =
        unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<u8>()) };
    match joined {
        -1 => match io::Error::last_os_error() {
            // A kernel without keyrings.
            error if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
            error => Err(error),
        },
        _ => Ok(()),
    }
}

/// Runs `work` in a child that is in a new user namespace, and ends the child when `work` is
/// done. `work` runs in this process; it is given the child's id.
pub(crate) fn with_new_user_namespace<T>(work: impl FnOnce(Pid) -> io::Result<T>) -> io::Result<T> {
    let (ready, tell_ready) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (done, tell_done) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: the helper has one thread, so the child's copy of memory is consistent; the
    // child makes nothing but system calls and never returns from here.
    let child = unsafe { libc::fork() };
    match child {
        -1 => return Err(io::Error::last_os_error()),
        0 => {
            drop((ready, tell_done));
            live_in_new_user_namespace(&tell_ready, &done);
        }
        _ => {}
    }
    drop((tell_ready, done));
    let pid = Pid::from_raw(child).ok_or(io::ErrorKind::InvalidData)?;
    let result = match wait_for_child(&ready) {
        Ok(()) => work(pid),
        Err(error) => Err(error),
    };
    drop(tell_done);
    rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty())?;
    result
}

/// The child: enters the namespace, says how that went, waits for the end of `done`.
fn live_in_new_user_namespace(tell_ready: &OwnedFd, done: &OwnedFd) -> ! {
    // SAFETY: this process has one thread.
    let entered = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER) };
    let errno = entered.err().map_or(0, rustix::io::Errno::raw_os_error);
    let _ = rustix::io::write(tell_ready, &errno.to_ne_bytes());
    let _ = rustix::io::read(done, &mut [0; 1]);
    // SAFETY: ends the child at once, without running the parent's exit handlers in it.
    unsafe { libc::_exit(0) }
}

fn wait_for_child(ready: &OwnedFd) -> io::Result<()> {
    let mut errno = [0; 4];
    match rustix::io::read(ready, &mut errno)? {
        4 if errno == [0; 4] => Ok(()),
        4 => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
