//! A copy of a disk as it is at one moment.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use super::{DISK, LayeredDisk, point};
use crate::error::{DiskError, at};
use crate::one_moment::{FROZEN_LIMIT, Source, keep, make_room};

impl LayeredDisk {
    /// Copies the disk to a file, which is replaced if it is there. What was written before is in the
    /// copy, what is written afterwards is not; while the copy is made, writes wait. The name
    /// appears when the copy is complete and safe on the host's disk.
    pub fn snapshot(&self, to: &Path) -> Result<(), DiskError> {
        self.snapshot_within(to, FROZEN_LIMIT)
    }

    /// The same with another limit for the time in which writes wait. If that is not enough, nothing
    /// is kept.
    pub fn snapshot_within(&self, to: &Path, limit: Duration) -> Result<(), DiskError> {
        keep(to, |partial| {
            let lock = self.lock()?;
            make_room(partial)?;
            let (path, image) = (self.folder.join(DISK), self.image());
            let source = Source { image: &image, folder: &self.folder };
            match point::mounted(&lock, DISK).map_err(at("mount point", &path))? {
                Some(disk) => source.copy_mounted(disk.as_fd(), partial, limit),
                None => source.copy_unmounted(partial),
            }
        })
    }
}
