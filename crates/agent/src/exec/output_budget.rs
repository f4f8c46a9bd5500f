//! How much of a disk output files may take: so little that commands which print without end leave
//! room for everything else, however small the disk is.
//!
//! ```text
//!  an eighth of the disk, at most 1 GiB ─┬─ one file: half of it at most
//!                                        └─ finished files: what then is left, the oldest go first
//!  files that are being written at the same time: together as much again, and none of them goes
//! ```

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::fstatvfs;

/// The most of one output.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// The most of all.
const MAX_TOTAL_BYTES: u64 = 1 << 30;

/// All of them take at most this part of their disk.
const SHARE_OF_DISK: u64 = 8;

/// A file takes at most this part of what is free on its disk.
const SHARE_OF_FREE: u64 = 4;

/// What may be taken of one disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budget {
    total: u64,
    file: u64,
}

impl Budget {
    /// That of the disk a folder is on.
    pub(super) fn of(folder: &OwnedFd) -> Self {
        let size = fstatvfs(folder).map_or(0, |disk| disk.f_blocks.saturating_mul(disk.f_frsize));
        Self::of_disk(size)
    }

    fn of_disk(size: u64) -> Self {
        let total = match size {
            // A file system that does not count.
            0 => MAX_TOTAL_BYTES,
            size => MAX_TOTAL_BYTES.min(size / SHARE_OF_DISK),
        };
        Self { total, file: MAX_FILE_BYTES.min(total / 2) }
    }

    /// What finished files may take beside a new one.
    pub(super) fn for_finished(self) -> u64 {
        self.total - self.file
    }

    /// What a new file in this folder may take.
    pub(super) fn for_new(self, folder: &OwnedFd) -> Room {
        let free = fstatvfs(folder).map_or(u64::MAX, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        Room { left: self.file.min(free / SHARE_OF_FREE), taken: 0, together: self.total }
    }
}

/// Bytes of the files that are being written now.
static BEING_WRITTEN: AtomicU64 = AtomicU64::new(0);

/// What one file may take while it is being written.
pub(super) struct Room {
    pub(super) left: u64,
    taken: u64,
    /// The most that all may take that are being written.
    together: u64,
}

impl Room {
    /// What finished files may take beside this one, when it is one of them.
    pub(super) fn for_finished(&self) -> u64 {
        self.together.saturating_sub(self.taken)
    }

    /// Takes as much of this as there is.
    pub(super) fn take(&mut self, wanted: usize) -> usize {
        let mine = usize::try_from(self.left).unwrap_or(usize::MAX).min(wanted);
        let mut fits = 0;
        let took = BEING_WRITTEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            let left = usize::try_from(self.together.saturating_sub(taken)).unwrap_or(usize::MAX);
            fits = left.min(mine);
            Some(taken + fits as u64)
        });
        if took.is_err() {
            return 0;
        }
        self.left -= fits as u64;
        self.taken += fits as u64;
        fits
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        BEING_WRITTEN.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_disk_has_small_files() {
        let check = |size: u64, total: u64, file: u64| {
            assert_eq!(
                Budget::of_disk(size << 20),
                Budget { total: total << 20, file: file << 20 },
                "{size}"
            );
        };
        check(64, 8, 4);
        check(1 << 10, 128, 64);
        check(100 << 10, 1 << 10, 256);
        check(0, 1 << 10, 256);
    }

    #[test]
    fn many_at_once_share_what_there_is() {
        let room = || Room { left: 8, taken: 0, together: 10 };
        let (mut one, mut other) = (room(), room());
        assert_eq!((one.take(5), one.take(5), one.take(5)), (5, 3, 0));
        assert_eq!(other.take(5), 2);
        drop(one);
        assert_eq!(other.take(9), 6);
        drop(other);
        assert_eq!(BEING_WRITTEN.load(Ordering::Relaxed), 0);
    }
}
