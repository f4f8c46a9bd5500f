//! A disk laid over a folder, on the host: what a sandbox sees as its root is an overlay whose
//! lower layer is a folder that is only read (an unpacked image), and whose upper layer is on a
//! disk of a bounded size. Whatever the sandbox writes ends with a true `ENOSPC`.
//!
//! ```text
//!  <folder>/
//!    disk.img ──loop device──► disk/           ext4
//!                                ├ upper/ ─┐
//!                                └ work/  ─┼──► root/   overlay
//!                    lower (read-only) ────┘
//! ```
//!
//! Both mount points are empty, immutable folders: what is meant for the disk and comes when it is
//! not mounted fails, and lands on no disk of the host's. Whatever else is in the folder is not
//! touched.
//!
//! ```text
//!  create ─► disk.img has its name last       interrupted, there is no disk
//!  mount ──► lock of disk.img
//!              └► loop device                 interrupted, the kernel detaches it
//!                   └► ext4 on disk/          interrupted, `mount` goes on from here
//!                        └► overlay on root/
//!  unmount ► root/, disk/, lock is free = the loop device is gone
//!  remove ─► unmount, disk.img, mount points, folder; interrupted, `remove` goes on
//! ```
//!
//! One operation at a time: the folder is locked meanwhile, in this process and in others. What is
//! known about a disk is in its folder and in the kernel's table of mounts, nowhere else; a handle
//! can be opened any number of times.
//!
//! An image that a guest could write to as a block device (a microVM's) must never come here: the
//! host's kernel trusts the file systems it mounts.

mod create;
mod lock;
mod mount;
mod point;
mod remove;
mod snapshot;
mod top_folders;
mod unmount;
mod usage;

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crate::error::{DiskError, at};
use crate::one_moment::Source;
use lock::FolderLock;

pub use unmount::Unmounted;
pub use usage::DiskUsage;

/// The disk.
const IMAGE: &str = "disk.img";
/// The disk while it is copied.
const PARTIAL: &str = ".disk.img.partial";
/// Where the disk is mounted.
const DISK: &str = "disk";
/// Where the overlay is mounted.
const ROOT: &str = "root";
/// What is written, on the disk.
const UPPER: &str = "upper";
/// What the overlay needs for itself, on the disk.
const WORK: &str = "work";

/// A disk laid over a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayeredDisk {
    /// Canonical, as the kernel names it in its table of mounts.
    folder: PathBuf,
}

impl LayeredDisk {
    /// A disk that is there already, mounted or not. If it was left frozen by a process that was
    /// killed, its writes go on.
    pub fn open(folder: &Path) -> Result<Self, DiskError> {
        let not_found = || DiskError::NotFound { folder: folder.to_owned() };
        let disk = Self::named(folder)?.ok_or_else(not_found)?;
        if !disk.has_image() {
            return Err(not_found());
        }
        // While somebody holds the lock it may be frozen for a reason.
        if let Some(lock) = FolderLock::try_take(&disk.folder)? {
            disk.thaw_if_frozen(&lock)?;
        }
        Ok(disk)
    }

    /// The folder of the disk.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the layers are seen as one, while they are mounted.
    pub fn root(&self) -> PathBuf {
        self.folder.join(ROOT)
    }

    /// A folder that exists and is not a link.
    fn named(folder: &Path) -> Result<Option<Self>, DiskError> {
        match fs::symlink_metadata(folder) {
            Ok(found) if found.is_dir() => {
                let folder = fs::canonicalize(folder).map_err(at("state folder", folder))?;
                Ok(Some(Self { folder }))
            }
            Ok(_) => Err(at("state folder", folder)(io::Error::from(io::ErrorKind::NotADirectory))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at("state folder", folder)(error)),
        }
    }

    fn has_image(&self) -> bool {
        fs::symlink_metadata(self.image()).is_ok_and(|found| found.is_file())
    }

    fn image(&self) -> PathBuf {
        self.folder.join(IMAGE)
    }

    fn lock(&self) -> Result<FolderLock, DiskError> {
        FolderLock::take(&self.folder)
    }

    fn thaw_if_frozen(&self, lock: &FolderLock) -> Result<(), DiskError> {
        let path = self.folder.join(DISK);
        let Some(disk) = point::mounted(lock, DISK).map_err(at("mount point", &path))? else { return Ok(()) };
        Source { image: &self.image(), folder: &self.folder }.thaw_if_frozen(disk.as_fd())
    }
}
