//! What all copies of disks have in common: they are of one moment, and have their name when they are whole.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::syncfs;

use crate::error::{DiskError, at};
use crate::freeze::{Frozen, thaw_leftover};
use crate::image::{copy_sparse_while, lock_when_detached};

/// How long a sandbox's writes may be stopped. Where the host's file system shares blocks it takes
/// milliseconds.
pub(crate) const FROZEN_LIMIT: Duration = Duration::from_secs(30);

/// How long a disk may take to become free whose sandbox has ended.
const DETACH_LIMIT: Duration = Duration::from_secs(5);

/// A disk that is to be copied.
pub(crate) struct Source<'a> {
    /// Its file.
    pub(crate) image: &'a Path,
    /// What is named where it fails.
    pub(crate) folder: &'a Path,
}

/// Has a copy made, which is replaced if it is there. The name appears when it is complete and safe on the
/// host's disk; of one that fails nothing is kept.
pub(crate) fn keep(to: &Path, copy: impl FnOnce(&Path) -> Result<File, DiskError>) -> Result<(), DiskError> {
    let partial = partial_name(to).ok_or(io::ErrorKind::InvalidInput).map_err(at("snapshot", to))?;
    let kept = copy(&partial).and_then(|copy| {
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

/// Removes what an interrupted attempt has left in the place of a copy.
pub(crate) fn make_room(to: &Path) -> Result<(), DiskError> {
    match fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at("snapshot", to)(error)),
        _ => Ok(()),
    }
}

impl Source<'_> {
    /// Copies a disk whose file system is mounted; `mounted` is any folder on it. Writes wait meanwhile.
    pub(crate) fn copy_mounted(
        &self,
        mounted: BorrowedFd<'_>,
        to: &Path,
        limit: Duration,
    ) -> Result<File, DiskError> {
        self.thaw_if_frozen(mounted)?;
        let image = File::open(self.image).map_err(at("disk", self.image))?;
        // Most of what is pending is written while nobody has to wait for it.
        syncfs(mounted).map_err(at("sync", self.image))?;
        let frozen = Frozen::freeze(mounted).map_err(at("freeze", self.image))?;
        let deadline = Instant::now() + limit;
        let in_time = || match Instant::now() < deadline {
            true => Ok(()),
            false => Err(io::ErrorKind::TimedOut.into()),
        };
        let copy = copy_sparse_while(&image, to, &in_time);
        // Thawed in between by somebody else, it is no copy of one moment.
        frozen.thaw().map_err(at("thaw", self.image))?;
        copy.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => DiskError::TooSlow { folder: self.folder.to_owned(), limit },
            _ => at("snapshot", to)(error),
        })
    }

    /// Copies a disk that nobody has mounted, or soon will not have.
    pub(crate) fn copy_unmounted(&self, to: &Path) -> Result<File, DiskError> {
        let image = lock_when_detached(self.image, Instant::now() + DETACH_LIMIT);
        let image = image.map_err(|error| match error.kind() {
            io::ErrorKind::ResourceBusy => DiskError::InUse { folder: self.folder.to_owned() },
            io::ErrorKind::NotFound => DiskError::NotFound { folder: self.folder.to_owned() },
            _ => at("disk", self.image)(error),
        })?;
        copy_sparse_while(&image, to, &|| Ok(())).map_err(at("snapshot", to))
    }

    /// Lets writes go on that a process which was killed has stopped.
    pub(crate) fn thaw_if_frozen(&self, mounted: BorrowedFd<'_>) -> Result<(), DiskError> {
        if thaw_leftover(mounted).map_err(at("thaw", self.image))? {
            tracing::warn!("{} was left frozen, and is not any more", self.image.display());
        }
        Ok(())
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
