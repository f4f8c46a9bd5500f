//! One operation at a time.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, fstat, openat};
use rustix::io::Errno;

use crate::error::{DiskError, at};

/// How long an operation may wait for another. Longer than any of them may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The folder of a disk, open and locked. The lock ends with this value, and with the process.
pub(super) struct FolderLock {
    folder: OwnedFd,
}

impl FolderLock {
    /// Waits for it.
    pub(super) fn take(folder: &Path) -> Result<Self, DiskError> {
        let deadline = Instant::now() + LIMIT;
        let mut pause = Duration::from_micros(500);
        loop {
            if let Some(lock) = Self::try_take(folder)? {
                return Ok(lock);
            }
            if Instant::now() >= deadline {
                return Err(DiskError::Locked { folder: folder.to_owned() });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Does not wait for it.
    pub(super) fn try_take(folder: &Path) -> Result<Option<Self>, DiskError> {
        let not_found = || DiskError::NotFound { folder: folder.to_owned() };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match openat(CWD, folder, flags, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Err(not_found()),
            Err(error) => return Err(at("state folder", folder)(error)),
        };
        match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(at("state folder", folder)(error)),
        }
        // Removed while it was opened.
        match fstat(&opened).map_err(at("state folder", folder))?.st_nlink {
            0 => Err(not_found()),
            _ => Ok(Some(Self { folder: opened })),
        }
    }
}

impl AsFd for FolderLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}
