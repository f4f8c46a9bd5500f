//! The folders of the root that is being made, and the only way to get at them: from the root's
//! own descriptor, one name after the other, never over a link.
//!
//! Folders on the way to the last entry stay open, since the next one mostly lies beside it. They
//! cannot change meaning: nothing here removes or moves a folder.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::error::{Trying, UnpackError};
use super::limits::Budget;

pub(super) struct Tree {
    root: Folder,
    /// From the root down.
    way: Vec<(OsString, Folder)>,
}

/// An open folder. Making things in it changes its time, so that is put back when it is left.
struct Folder {
    fd: OwnedFd,
    mtime: Timespec,
}

impl Tree {
    pub(super) fn new(root: OwnedFd) -> Result<Self, UnpackError> {
        Ok(Self { root: Folder::new(root, &[])?, way: Vec::new() })
    }

    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.fd.as_fd()
    }

    /// The time the root is to have in the end.
    pub(super) fn set_root_mtime(&mut self, mtime: Timespec) {
        self.root.mtime = mtime;
    }

    /// Opens a folder to make something in it; makes those on the way that are not there yet.
    pub(super) fn enter(
        &mut self,
        names: &[OsString],
        budget: &mut Budget,
    ) -> Result<BorrowedFd<'_>, UnpackError> {
        let shared = self.way.iter().zip(names).take_while(|((open, _), name)| open == *name).count();
        self.leave_below(shared)?;
        for depth in shared..names.len() {
            let parent = self.way.last().map_or(&self.root, |(_, folder)| folder).fd.as_fd();
            let (so_far, name) = (&names[..=depth], names[depth].as_os_str());
            let fd = match open_folder(parent, name) {
                Err(Errno::NOENT) => {
                    budget.entry()?;
                    let action = "making a folder that no entry names";
                    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755))
                        .and_then(|()| open_folder(parent, name))
                        .trying(action, &joined(so_far))?
                }
                answer => opened(answer, so_far)?,
            };
            self.way.push((name.to_owned(), Folder::new(fd, so_far)?));
        }
        Ok(self.way.last().map_or(&self.root, |(_, folder)| folder).fd.as_fd())
    }

    /// Opens a folder that must be there, to look at something in it.
    pub(super) fn look(&self, names: &[OsString]) -> Result<OwnedFd, UnpackError> {
        let mut folder = rustix::io::fcntl_dupfd_cloexec(self.root(), 0).trying("opening", &joined(&[]))?;
        for depth in 0..names.len() {
            folder = opened(open_folder(folder.as_fd(), &names[depth]), &names[..=depth])?;
        }
        Ok(folder)
    }

    /// Puts back the times of all folders that are still open.
    pub(super) fn finish(mut self) -> Result<OwnedFd, UnpackError> {
        self.leave_below(0)?;
        self.root.leave(&[])?;
        Ok(self.root.fd)
    }

    fn leave_below(&mut self, depth: usize) -> Result<(), UnpackError> {
        while self.way.len() > depth {
            let names: Vec<OsString> = self.way.iter().map(|(name, _)| name.clone()).collect();
            if let Some((_, folder)) = self.way.pop() {
                folder.leave(&names)?;
            }
        }
        Ok(())
    }
}

impl Folder {
    fn new(fd: OwnedFd, names: &[OsString]) -> Result<Self, UnpackError> {
        let found = rustix::fs::fstat(&fd).trying("looking at a folder", &joined(names))?;
        let mtime = Timespec { tv_sec: found.st_mtime, tv_nsec: found.st_mtime_nsec as _ };
        Ok(Self { fd, mtime })
    }

    fn leave(&self, names: &[OsString]) -> Result<(), UnpackError> {
        rustix::fs::futimens(&self.fd, &both(self.mtime)).trying("setting the time", &joined(names))
    }
}

/// Opens a folder below another one; a link is not followed, whatever it leads to.
pub(super) fn open_folder(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// Both times of a file. When it was last read is nothing an archive tells.
pub(super) fn both(time: Timespec) -> Timestamps {
    Timestamps { last_access: time, last_modification: time }
}

fn opened(answer: Result<OwnedFd, Errno>, names: &[OsString]) -> Result<OwnedFd, UnpackError> {
    match answer {
        Err(Errno::NOTDIR | Errno::LOOP) => Err(UnpackError::NotThroughFolders { path: joined(names) }),
        answer => answer.trying("opening a folder", &joined(names)),
    }
}

fn joined(names: &[OsString]) -> PathBuf {
    if names.is_empty() { ".".into() } else { names.iter().collect() }
}
