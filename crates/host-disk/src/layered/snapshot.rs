//! A copy of a disk as it is at one moment.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::syncfs;

use super::lock::FolderLock;
use super::mount::DETACH_LIMIT;
use super::{DISK, LayeredDisk, point};
use crate::error::{DiskError, at};
use crate::freeze::Frozen;
use crate::image::{copy_sparse_while, lock_when_detached};

/// How long a sandbox's writes may be stopped. Where the host's file system shares blocks it takes
/// milliseconds.
const FROZEN_LIMIT: Duration = Duration::from_secs(30);

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
        let partial = partial_name(to).ok_or(io::ErrorKind::InvalidInput).map_err(at("snapshot", to))?;
        let kept = self.copy_as_it_is(&partial, limit).and_then(|copy| {
            // A name must never outlive its content.
            copy.sync_all().map_err(at("snapshot", &partial))?;
            fs::rename(&partial, to).map_err(at("snapshot", to))?;
            let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(at("snapshot", folder))
        });
        if kept.is_err() {
            let _ = fs::remove_file(&partial);
        }
        kept
    }

    fn copy_as_it_is(&self, to: &Path, limit: Duration) -> Result<File, DiskError> {
        let lock = self.lock()?;
        match fs::remove_file(to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at("snapshot", to)(error)),
            _ => {}
        }
        let path = self.folder.join(DISK);
        match point::mounted(&lock, DISK).map_err(at("mount point", &path))? {
            Some(disk) => self.copy_mounted(&lock, disk, to, limit),
            None => self.copy_unmounted(to),
        }
    }

    fn copy_mounted(
        &self,
        lock: &FolderLock,
        disk: impl AsFd,
        to: &Path,
        limit: Duration,
    ) -> Result<File, DiskError> {
        let path = self.folder.join(DISK);
        self.thaw_if_frozen(lock)?;
        let image = File::open(self.image()).map_err(at("disk", &self.image()))?;
        // Most of what is pending is written while nobody has to wait for it.
        syncfs(&disk).map_err(at("sync", &path))?;
        let frozen = Frozen::freeze(disk.as_fd()).map_err(at("freeze", &path))?;
        let deadline = Instant::now() + limit;
        let in_time = || match Instant::now() < deadline {
            true => Ok(()),
            false => Err(io::ErrorKind::TimedOut.into()),
        };
        let copy = copy_sparse_while(&image, to, &in_time);
        // Thawed in between by somebody else, it is no copy of one moment.
        frozen.thaw().map_err(at("thaw", &path))?;
        copy.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => DiskError::TooSlow { folder: self.folder.clone(), limit },
            _ => at("snapshot", to)(error),
        })
    }

    fn copy_unmounted(&self, to: &Path) -> Result<File, DiskError> {
        let image = lock_when_detached(&self.image(), Instant::now() + DETACH_LIMIT);
        let image = image.map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => DiskError::InUse { folder: self.folder.clone() },
            io::ErrorKind::NotFound => DiskError::NotFound { folder: self.folder.clone() },
            _ => at("disk", &self.image())(error),
        })?;
        copy_sparse_while(&image, to, &|| Ok(())).map_err(at("snapshot", to))
    }
}

/// The name of a copy that is not complete: beside it, and always the same, so that what an
/// interrupted attempt has left is found by the next.
fn partial_name(to: &Path) -> Option<PathBuf> {
    let mut name = OsString::from(".");
    name.push(to.file_name()?);
    name.push(".partial");
    Some(to.with_file_name(name))
}
