//! Which folders are watched, by the kernel's numbers.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, WatchFlags};
use rustix::io::Errno;

/// Folders of one watch. Each costs the kernel about a kilobyte.
pub(super) const MAX_FOLDERS: usize = 16_384;

/// What is wanted of a folder.
const WANTED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::EXCL_UNLINK);

/// The folders that are watched.
#[derive(Default)]
pub(super) struct Folders {
    by_number: HashMap<i32, PathBuf>,
}

/// Why a folder is not watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotWatched {
    /// There are as many as there may be.
    Full,
    /// It is gone, or no folder, or not to be read.
    Failed(Errno),
}

impl Folders {
    /// Watches a folder. Only the root may be reached through a link.
    pub(super) fn add(&mut self, inotify: &OwnedFd, path: &Path, is_root: bool) -> Result<i32, NotWatched> {
        if self.by_number.len() >= MAX_FOLDERS {
            return Err(NotWatched::Full);
        }
        let flags = if is_root { WANTED } else { WANTED | WatchFlags::DONT_FOLLOW };
        match inotify::add_watch(inotify, path, flags) {
            Ok(number) => {
                self.by_number.insert(number, path.to_owned());
                Ok(number)
            }
            Err(Errno::NOSPC) => Err(NotWatched::Full),
            Err(errno) => Err(NotWatched::Failed(errno)),
        }
    }

    pub(super) fn path(&self, number: i32) -> Option<&Path> {
        self.by_number.get(&number).map(PathBuf::as_path)
    }

    pub(super) fn forget(&mut self, number: i32) {
        self.by_number.remove(&number);
    }

    /// A folder has another name, and so has everything below it.
    pub(super) fn rename(&mut self, old: &Path, new: &Path) {
        for path in self.by_number.values_mut() {
            if let Ok(below) = path.strip_prefix(old) {
                *path = if below.as_os_str().is_empty() { new.to_owned() } else { new.join(below) };
            }
        }
    }

    /// A folder is no longer where it was, and what happens in it is of no interest.
    pub(super) fn remove_below(&mut self, inotify: &OwnedFd, gone: &Path) {
        self.by_number.retain(|number, path| {
            let stays = !path.starts_with(gone);
            if !stays {
                let _ = inotify::remove_watch(inotify, *number);
            }
            stays
        });
    }
}
