//! The folder an archive is unpacked into before it gets its name.
//!
//! ```text
//!  <name>.partial, locked ──► full ──► on disk ──► <name>
//!        │                     │
//!        └── dropped ──────────┴─► removed
//! ```
//!
//! The lock goes with the process: a `.partial` that nobody has locked is what a crash left.

use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::error::{Trying, UnpackError};
use super::tree::open_folder;

const SUFFIX: &str = ".partial";

pub(super) struct Partial {
    /// The folder to be made.
    folder: PathBuf,
    parent: OwnedFd,
    name: OsString,
    partial_name: OsString,
    /// Holds the lock.
    locked: OwnedFd,
    /// Whether there is still something to remove.
    unfinished: bool,
}

impl Partial {
    /// Begins anew, over whatever an earlier attempt has left.
    pub(super) fn begin(folder: &Path) -> Result<Self, UnpackError> {
        let name = folder.file_name().ok_or_else(|| UnpackError::Outside { path: folder.to_owned() })?;
        let parent_path = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = open_parent(parent_path.unwrap_or(Path::new(".")))?;
        let mut partial_name = name.to_owned();
        partial_name.push(SUFFIX);

        // Whoever removes a leftover holds its lock, so this ends when they have.
        for _ in 0..100 {
            if exists(&parent, name) {
                return Err(UnpackError::Exists { folder: folder.to_owned() });
            }
            match rustix::fs::mkdirat(&parent, &partial_name, Mode::from_raw_mode(0o700)) {
                Ok(()) => {}
                Err(Errno::EXIST) => {
                    let path = folder.with_file_name(&partial_name);
                    if !remove_unless_locked(&parent, &partial_name, &path)? {
                        return Err(UnpackError::Busy { folder: folder.to_owned() });
                    }
                    continue;
                }
                Err(error) => {
                    return Err(error).trying("making a folder", &folder.with_file_name(&partial_name));
                }
            }
            if let Some(locked) = lock(&parent, &partial_name) {
                let name = name.to_owned();
                let folder = folder.to_owned();
                return Ok(Self { folder, parent, name, partial_name, locked, unfinished: true });
            }
        }
        Err(UnpackError::Busy { folder: folder.to_owned() })
    }

    /// The folder to unpack into.
    pub(super) fn root(&self) -> Result<OwnedFd, UnpackError> {
        rustix::io::fcntl_dupfd_cloexec(self.locked.as_fd(), 0).trying("opening", &self.folder)
    }

    /// Gives the folder its name, once everything in it is on disk.
    pub(super) fn finish(mut self) -> Result<(), UnpackError> {
        rustix::fs::syncfs(&self.locked).trying("writing to disk", &self.folder)?;
        let (from, to) = (&self.partial_name, &self.name);
        match rustix::fs::renameat_with(&self.parent, from, &self.parent, to, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(UnpackError::Exists { folder: self.folder.clone() }),
            Err(error) => return Err(error).trying("renaming", &self.folder),
        }
        self.unfinished = false;
        rustix::fs::fsync(&self.parent).trying("writing to disk", &self.folder)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if self.unfinished {
            let path = self.folder.with_file_name(&self.partial_name);
            if let Err(error) = std::fs::remove_dir_all(&path) {
                tracing::warn!(folder = %path.display(), %error, "{}: was not removed: {error}", path.display());
            }
        }
    }
}

/// Removes what crashes have left in a folder of unpacked images: every `.partial` that nobody is
/// at work on. Says which.
pub fn remove_leftovers(parent: &Path) -> Result<Vec<PathBuf>, UnpackError> {
    let entries = match std::fs::read_dir(parent) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        answer => answer.trying("listing", parent)?,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent_fd = rustix::fs::open(parent, flags, Mode::empty()).trying("opening", parent)?;
    let mut removed = Vec::new();
    for entry in entries {
        let entry = entry.trying("listing", parent)?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder
            && entry.path().extension() == Some(OsStr::new(&SUFFIX[1..]))
            && remove_unless_locked(&parent_fd, &entry.file_name(), &entry.path())?
        {
            removed.push(entry.path());
        }
    }
    Ok(removed)
}

/// Opens the folder that holds the unpacked ones; makes it where it is missing.
fn open_parent(path: &Path) -> Result<OwnedFd, UnpackError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).trying("making a folder", path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::open(path, flags, Mode::empty()).trying("opening a folder", path)?;
    let mode = rustix::fs::fstat(&parent).trying("looking at a folder", path)?.st_mode & 0o7777;
    if mode & 0o011 != 0 {
        return Err(UnpackError::Exposed { folder: path.to_owned(), mode });
    }
    Ok(parent)
}

/// Whether it is gone; not when somebody has locked it.
fn remove_unless_locked(parent: &OwnedFd, name: &OsStr, path: &Path) -> Result<bool, UnpackError> {
    let Some(_locked) = lock(parent, name) else { return Ok(!exists(parent, name)) };
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).trying("removing what a crash has left", path)
        }
        _ => Ok(true),
    }
}

/// Locks a folder, unless somebody else has, or has put another one in its place.
fn lock(parent: &OwnedFd, name: &OsStr) -> Option<OwnedFd> {
    let folder = open_folder(parent.as_fd(), name).ok()?;
    rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    let opened = rustix::fs::fstat(&folder).ok()?;
    let there = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    (opened.st_ino == there.st_ino).then_some(folder)
}

fn exists(parent: &OwnedFd, name: &OsStr) -> bool {
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}
