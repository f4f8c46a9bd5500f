//! Network namespaces.
#![expect(unsafe_code, reason = "leaving a namespace is unsafe by nature")]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// A network namespace, held open. It lives as long as this, a process or a socket in it.
#[derive(Debug)]
pub struct Namespace(OwnedFd);

impl Namespace {
    /// A new one with nothing in it, owned by this process's user namespace. For trials and
    /// tests: a sandbox's own belongs to the sandbox's user namespace.
    pub fn make() -> io::Result<Self> {
        on_own_thread(|| {
            // SAFETY: only the network namespace of a thread that ends right after changes;
            // descriptors stay shared.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            Self::of_this_thread()
        })
    }

    /// The one of a process. The caller must be sure which process that is.
    pub fn of_process(pid: i32) -> io::Result<Self> {
        Ok(Self(File::open(format!("/proc/{pid}/ns/net"))?.into()))
    }

    /// The one a file descriptor of this kind leads to.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    pub(crate) fn of_this_thread() -> io::Result<Self> {
        Ok(Self(File::open("/proc/thread-self/ns/net")?.into()))
    }

    /// Runs `work` in the namespace, on a thread of its own. Sockets that it opens belong to
    /// the namespace wherever they are used.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_own_thread(|| {
            move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(work())
        })
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn on_own_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("namespace".to_owned()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
    })
}
