//! Holding a file system still.
//!
//! A frozen file system outlives whoever froze it: everything that writes to it waits, and
//! unmounting it does not end it. So whoever works with a disk first thaws what another process
//! may have left.
#![expect(unsafe_code, reason = "freezing is an ioctl that no library offers safely")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

const FIFREEZE: libc::c_ulong = 0xC004_5877;
const FITHAW: libc::c_ulong = 0xC004_5878;

/// A file system to which nothing is written until this is dropped.
pub(crate) struct Frozen<'a> {
    /// Any folder on it; `None` once it has been thawed.
    folder: Option<BorrowedFd<'a>>,
}

impl<'a> Frozen<'a> {
    /// Writes what is pending, and stops everything else.
    pub(crate) fn freeze(folder: BorrowedFd<'a>) -> io::Result<Self> {
        request(folder, FIFREEZE)?;
        Ok(Self { folder: Some(folder) })
    }

    /// Lets writes go on. An error means that it may have been thawed by somebody else before.
    pub(crate) fn thaw(mut self) -> io::Result<()> {
        match self.folder.take() {
            Some(folder) => request(folder, FITHAW),
            None => Ok(()),
        }
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        if let Some(folder) = self.folder.take()
            && let Err(error) = request(folder, FITHAW)
        {
            tracing::error!("a file system could not be thawed: {error}");
        }
    }
}

/// Thaws a file system that somebody left frozen; says whether it was.
pub(crate) fn thaw_leftover(folder: impl AsFd) -> io::Result<bool> {
    match request(folder.as_fd(), FITHAW) {
        Ok(()) => Ok(true),
        // It is not frozen.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        Err(error) => Err(error),
    }
}

fn request(folder: BorrowedFd<'_>, what: libc::c_ulong) -> io::Result<()> {
    // SAFETY: both requests ignore their argument and touch no memory of this process.
    match unsafe { libc::ioctl(folder.as_raw_fd(), what, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
