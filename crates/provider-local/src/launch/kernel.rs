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

/// Leaves every namespace of the host's for new ones, but for its mounts: the helper still
/// writes to the state folder. The PID namespace begins with the next child.
pub(crate) fn unshare_everything() -> io::Result<()> {
    let all = UnshareFlags::NEWUSER
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWCGROUP;
    // SAFETY: the helper has one thread, so no other thread's view changes under it.
    Ok(unsafe { rustix::thread::unshare_unsafe(all) }?)
}

/// Leaves the host's user namespace for a new one.
pub(crate) fn unshare_user() -> io::Result<()> {
    // SAFETY: the helper has one thread, so no other thread's view changes under it.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER) }?)
}

/// Forks; `None` in the child.
pub(crate) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the helper has one thread, so the child's copy of memory is consistent.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Ends a child at once.
pub(crate) fn end_now() -> ! {
    // SAFETY: does not run the parent's exit handlers in the child.
    unsafe { libc::_exit(1) }
}

/// Leaves nothing open across `execve` from this number up.
pub(crate) fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    let flags = libc::CLOSE_RANGE_CLOEXEC as libc::c_int;
    // SAFETY: changes a flag of descriptors, and closes none.
    match unsafe { libc::close_range(first.unsigned_abs(), libc::c_uint::MAX, flags) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
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
/// done. `work` runs in this process; it is given the child's id. With `network`, the child is
/// also in a new network namespace, which belongs to the user namespace.
///
/// The namespace is `owner`'s, an id that nobody else has: what the kernel counts per account
/// (inotify instances and watches) is also counted for whoever owns the namespace, and if that
/// were root, one sandbox could take what root's programs and all other sandboxes need.
pub(crate) fn with_new_user_namespace<T>(
    owner: u32,
    network: bool,
    work: impl FnOnce(Pid) -> io::Result<T>,
) -> io::Result<T> {
    let (ready, tell_ready) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (done, tell_done) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: the helper has one thread, so the child's copy of memory is consistent; the
    // child makes nothing but system calls and never returns from here.
    let child = unsafe { libc::fork() };
    match child {
        -1 => return Err(io::Error::last_os_error()),
        0 => {
            drop((ready, tell_done));
            live_in_new_user_namespace(owner, network, &tell_ready, &done);
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
fn live_in_new_user_namespace(owner: u32, network: bool, tell_ready: &OwnedFd, done: &OwnedFd) -> ! {
    let errno = match enter_user_namespace_of(owner, network) {
        Ok(()) => 0,
        Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
    };
    let _ = rustix::io::write(tell_ready, &errno.to_ne_bytes());
    let _ = rustix::io::read(done, &mut [0; 1]);
    // SAFETY: ends the child at once, without running the parent's exit handlers in it.
    unsafe { libc::_exit(0) }
}

fn enter_user_namespace_of(owner: u32, network: bool) -> io::Result<()> {
    // The effective id alone, by which the kernel knows the owner. With it go the effective
    // capabilities, and come back: where ordinary accounts may make no namespaces, root may.
    // SAFETY: takes numbers, for which -1 means to leave what is there.
    match unsafe { libc::setresuid(libc::uid_t::MAX, owner, libc::uid_t::MAX) } {
        0 => {}
        _ => return Err(io::Error::last_os_error()),
    }
    let mut own = rustix::thread::capabilities(None)?;
    own.effective = own.permitted;
    rustix::thread::set_capabilities(None, own)?;
    let network = if network { UnshareFlags::NEWNET } else { UnshareFlags::empty() };
    // SAFETY: this process has one thread.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER | network) }?)
}

fn wait_for_child(ready: &OwnedFd) -> io::Result<()> {
    let mut errno = [0; 4];
    match rustix::io::read(ready, &mut errno)? {
        4 if errno == [0; 4] => Ok(()),
        4 => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
