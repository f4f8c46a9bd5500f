//! A file that is being written and has not got its name yet.
//!
//! ```text
//!  unnamed (O_TMPFILE) ──► link to the target's name ─────────────► put    nothing was there
//!      │                └► link to a temporary name ─┐
//!      │ the file system has none                     ├─► rename ─► put    something is replaced
//!      └──► temporary name, locked ──────────────────┘
//! ```
//!
//! An unnamed file goes with the process that has it open, so that an agent that is killed
//! leaves nothing behind. What has a temporary name is locked for as long as somebody writes
//! it: see the module `stale`.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FlockOperation, Gid, Mode, OFlags, RenameFlags, Uid, fchmod, fchown, flock, fstat, linkat,
    openat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use super::stale;
use super::temporary::Temporary;

/// What a file is to be like.
pub(super) struct Dress {
    pub(super) owner: Option<(u32, u32)>,
    /// Permission bits.
    pub(super) mode: u32,
}

/// A file under way. Removed when dropped before it was put in its place.
pub(super) struct Staged {
    folder: OwnedFd,
    file: OwnedFd,
    kind: Temporary,
    /// The name that it has for now; an unnamed file has none, and one that was put has its own.
    name: Option<PathBuf>,
}

impl Staged {
    /// A new file in a folder, which is given back when there can be none.
    pub(super) fn begin(folder: OwnedFd, replaces: bool) -> Result<Self, (OwnedFd, Errno)> {
        stale::sweep_once(&folder);
        let kind = if replaces { Temporary::Replaces } else { Temporary::IsNew };
        match unnamed(&folder) {
            Some(file) => Ok(Self { folder, file, kind, name: None }),
            None => Self::begin_named(folder, kind),
        }
    }

    fn begin_named(folder: OwnedFd, kind: Temporary) -> Result<Self, (OwnedFd, Errno)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let name = kind.name();
            match openat(&folder, &name, flags, Mode::from_raw_mode(0o600)) {
                Ok(file) => {
                    // A file system without locks has no sweep either.
                    let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
                    return Ok(Self { folder, file, kind, name: Some(name) });
                }
                // Left by an agent that was killed.
                Err(Errno::EXIST) => {}
                Err(errno) => return Err((folder, errno)),
            }
        }
    }

    pub(super) fn file(&self) -> &OwnedFd {
        &self.file
    }

    pub(super) fn folder(&self) -> &OwnedFd {
        &self.folder
    }

    /// Gives it its owner and mode. Owner first: changing it takes away set-id bits. Last of
    /// all before it is put in its place: what is found with a temporary name is the agent's.
    pub(super) fn dress(&self, dress: &Dress) -> Result<(), Errno> {
        if let Some((uid, gid)) = dress.owner {
            let own = fstat(&self.file)?;
            if (own.st_uid, own.st_gid) != (uid, gid) {
                fchown(&self.file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
            }
        }
        fchmod(&self.file, Mode::from_raw_mode(dress.mode))
    }

    /// Puts it in its place, whatever is there.
    pub(super) fn put(&mut self, name: &Path, is_new: bool) -> Result<(), Errno> {
        if is_new && self.name.is_none() {
            match self.link(name) {
                // It came meanwhile, and is replaced.
                Err(Errno::EXIST) => {}
                put => return put,
            }
        }
        let temporary = self.temporary_name()?;
        renameat(&self.folder, &temporary, &self.folder, name)?;
        self.name = None;
        Ok(())
    }

    /// Puts it in its place; an error when something is there.
    pub(super) fn put_new(&mut self, name: &Path) -> Result<(), Errno> {
        let Some(temporary) = &self.name else { return self.link(name) };
        match renameat_with(&self.folder, temporary, &self.folder, name, RenameFlags::NOREPLACE) {
            // Not every file system knows how; it was not there a moment ago.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => self.put(name, false),
            put => {
                put?;
                self.name = None;
                Ok(())
            }
        }
    }

    /// The name that it has for now: one that it is given, if it has none.
    fn temporary_name(&mut self) -> Result<PathBuf, Errno> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        loop {
            let name = self.kind.name();
            match self.link(&name) {
                Ok(()) => {
                    self.name = Some(name.clone());
                    return Ok(name);
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    fn link(&self, name: &Path) -> Result<(), Errno> {
        linkat(CWD, own_path(&self.file), &self.folder, name, AtFlags::SYMLINK_FOLLOW)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlinkat(&self.folder, name, AtFlags::empty());
        }
    }
}

/// A file without a name, where the file system has such and it can be given one later.
fn unnamed(folder: &OwnedFd) -> Option<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    // Whatever the reason is: one with a name is refused too, or is not.
    let file = openat(folder, ".", flags, Mode::from_raw_mode(0o600)).ok()?;
    rustix::fs::stat(own_path(&file)).is_ok().then_some(file)
}

/// How a file that is open is named to the kernel, whatever name it has.
fn own_path(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn staged(folder: &Path, named: bool) -> Staged {
        let folder = rustix::fs::open(folder, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let staged =
            if named { Staged::begin_named(folder, Temporary::IsNew) } else { Staged::begin(folder, false) };
        let staged = staged.unwrap_or_else(|(_, errno)| panic!("{errno}"));
        rustix::io::write(staged.file(), b"new").unwrap();
        staged
    }

    /// With a name or without one, the outcome is the same.
    #[test]
    fn it_is_put_where_it_belongs() {
        for named in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let (old, new) = (root.path().join("old"), root.path().join("new"));
            fs::write(&old, "old").unwrap();
            staged(root.path(), named).put(Path::new("old"), false).unwrap();
            staged(root.path(), named).put(Path::new("new"), true).unwrap();
            assert_eq!((fs::read(&old).unwrap(), fs::read(&new).unwrap()), (b"new".into(), b"new".into()));
            // Something that came meanwhile is replaced, unless it must not be.
            fs::write(&new, "other").unwrap();
            assert_eq!(staged(root.path(), named).put_new(Path::new("new")), Err(Errno::EXIST));
            assert_eq!(fs::read(&new).unwrap(), b"other");
            staged(root.path(), named).put(Path::new("new"), true).unwrap();
            assert_eq!(fs::read(&new).unwrap(), b"new");
            fs::remove_file(&new).unwrap();
            staged(root.path(), named).put_new(Path::new("new")).unwrap();
            drop(staged(root.path(), named));
            assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2, "named: {named}");
        }
    }
}
