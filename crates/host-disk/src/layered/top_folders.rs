//! What is directly below the merged root.
//!
//! The lower layer is an image that somebody named, and the upper layer a sandbox's. So nothing is
//! looked up by a path: names are single steps from the root, and links stay what they are.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fchmod, mkdirat, openat2, statat};
use rustix::io::Errno;

use super::{LayeredDisk, ROOT, point};
use crate::error::{DiskError, at};

/// What every sandbox has of its own.
const NOT_THE_DISK: [&str; 5] = ["proc", "sys", "dev", "run", "tmp"];

/// More folders at the root than any system has.
const LIMIT: usize = 256;

impl LayeredDisk {
    /// The names of the folders directly below the merged root, in order; without links, and
    /// without `proc`, `sys`, `dev`, `run` and `tmp`. Names that are not UTF-8 are left out.
    ///
    /// Folders of the names in `extra` are made first where there is nothing. Where there is a
    /// file or a link of that name it stays, and the name is not among those returned.
    pub fn top_folders(&self, extra: &[&str]) -> Result<Vec<String>, DiskError> {
        if let Some(name) = extra.iter().find(|name| !is_name(name)) {
            return Err(DiskError::BadName { name: (*name).to_owned() });
        }
        let lock = self.lock()?;
        let path = self.root();
        let root = point::mounted(&lock, ROOT)
            .map_err(at("mount point", &path))?
            .ok_or_else(|| DiskError::NotMounted { folder: self.folder.clone() })?;
        for name in extra {
            make(&root, name).map_err(at("folder", &path.join(name)))?;
        }
        let mut names = Vec::new();
        for entry in Dir::read_from(&root).map_err(at("list", &path))? {
            let entry = entry.map_err(at("list", &path))?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if [".", ".."].contains(&name) || NOT_THE_DISK.contains(&name) {
                continue;
            }
            if is_folder(&root, name, entry.file_type()).map_err(at("list", &path))? {
                names.push(name.to_owned());
            }
            if names.len() > LIMIT {
                return Err(DiskError::TooManyFolders { folder: self.folder.clone(), limit: LIMIT });
            }
        }
        names.sort();
        Ok(names)
    }
}

/// Makes a folder where there is nothing.
fn make(root: &OwnedFd, name: &str) -> Result<(), Errno> {
    match mkdirat(root, name, Mode::from_raw_mode(0o700)) {
        Err(Errno::EXIST) => return Ok(()),
        made => made?,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let made = openat2(root, name, flags, Mode::empty(), within)?;
    // Not left to this process's umask.
    fchmod(&made, Mode::from_raw_mode(mode_of(name)))
}

fn mode_of(name: &str) -> u32 {
    match name {
        "root" => 0o700,
        // Whoever works here, works here: the account is chosen per command.
        "workspace" => 0o777,
        _ => 0o755,
    }
}

fn is_folder(root: impl AsFd, name: &str, kind: FileType) -> Result<bool, Errno> {
    match kind {
        FileType::Directory => Ok(true),
        FileType::Unknown => match statat(root, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(seen) => Ok(FileType::from_raw_mode(seen.st_mode) == FileType::Directory),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error),
        },
        _ => Ok(false),
    }
}

/// A single step down.
fn is_name(name: &str) -> bool {
    !name.is_empty() && ![".", ".."].contains(&name) && !name.contains(['/', '\0'])
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_are_single_steps_down() {
        for name in ["workspace", "a b", "..x", "-"] {
            assert!(is_name(name), "{name:?}");
        }
        for name in ["", ".", "..", "/", "a/b", "/a", "a/", "a\0b", "../a"] {
            assert!(!is_name(name), "{name:?}");
        }
    }
}
