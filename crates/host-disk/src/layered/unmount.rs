//! Taking the layers out of their place.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use super::lock::FolderLock;
use super::mount::{DETACH_LIMIT, Mounts};
use super::{DISK, LayeredDisk, ROOT};
use crate::error::{DiskError, at};
use crate::image::lock_when_detached;

/// How long a mount may be busy. Whoever used it has ended by now, or is about to.
const BUSY_LIMIT: Duration = Duration::from_secs(2);

/// How long the loop device of a disk may take to vanish that was taken out of sight. What kept it
/// busy may have been mounts in it, which are gone now.
const FORCED_LIMIT: Duration = Duration::from_millis(500);

/// What became of a disk that is not mounted any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Unmounted {
    /// Nothing uses it: its loop device is gone.
    Freed,
    /// It is out of sight, but a process or another mount namespace still uses it. The kernel frees
    /// it when the last one ends; until then it can be neither mounted nor removed.
    InUse,
}

impl LayeredDisk {
    /// Unmounts both layers; none mounted is success. A layer that stays busy for two seconds is
    /// taken out of sight all the same, with whatever is mounted in it.
    pub fn unmount(&self) -> Result<Unmounted, DiskError> {
        let lock = self.lock()?;
        self.unmount_locked(&lock)
    }

    pub(super) fn unmount_locked(&self, lock: &FolderLock) -> Result<Unmounted, DiskError> {
        // A frozen file system is not ended by unmounting it, and nobody could thaw it afterwards.
        self.thaw_if_frozen(lock)?;
        let mut forced = false;
        for name in [ROOT, DISK] {
            // There is one at most, unless somebody else has mounted over it.
            while self.has_mount_on(name)? {
                forced |= self.take_off_or_out_of_sight(name)?;
            }
        }
        if !self.has_image() {
            return Ok(Unmounted::Freed);
        }
        let limit = if forced { FORCED_LIMIT } else { DETACH_LIMIT };
        match lock_when_detached(&self.image(), Instant::now() + limit) {
            Ok(_free) => Ok(Unmounted::Freed),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                tracing::warn!("{} is unmounted and still in use", self.image().display());
                Ok(Unmounted::InUse)
            }
            Err(error) => Err(at("disk", &self.image())(error)),
        }
    }

    /// Unmounts one layer, which may not be in use.
    pub(super) fn take_off(&self, name: &str) -> Result<(), DiskError> {
        match self.take_off_when_idle(name)? {
            true => Ok(()),
            false => Err(DiskError::InUse { folder: self.folder.clone() }),
        }
    }

    /// Says whether it had to be forced.
    fn take_off_or_out_of_sight(&self, name: &str) -> Result<bool, DiskError> {
        if self.take_off_when_idle(name)? {
            return Ok(false);
        }
        let path = self.folder.join(name);
        tracing::warn!("{} is busy, and is taken out of sight only", path.display());
        match unmount(&path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) | Err(Errno::INVAL) => Ok(true),
            Err(error) => Err(at("unmount", &path)(error)),
        }
    }

    /// Says whether it could.
    fn take_off_when_idle(&self, name: &str) -> Result<bool, DiskError> {
        let path = self.folder.join(name);
        let deadline = Instant::now() + BUSY_LIMIT;
        let mut pause = Duration::from_millis(1);
        loop {
            match unmount(&path, UnmountFlags::NOFOLLOW) {
                // Somebody else was faster.
                Ok(()) | Err(Errno::INVAL) => return Ok(true),
                Err(Errno::BUSY) if Instant::now() < deadline => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(50));
                }
                Err(Errno::BUSY) => return Ok(false),
                Err(error) => return Err(at("unmount", &path)(error)),
            }
        }
    }

    fn has_mount_on(&self, name: &str) -> Result<bool, DiskError> {
        let Mounts { disk, root } = self.mounts()?;
        Ok(!if name == DISK { disk } else { root }.is_empty())
    }
}
