//! Removing a disk.
//!
//! Nothing is removed but what has the name of a part of a disk, and is one. No link is followed, no
//! mount is crossed, and no path is followed for more than one step: folders in a mount point, where
//! there can be any at all, are moved up beside each other, one by one, and emptied there.

use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, RenameFlags, ResolveFlags, openat2, renameat_with, unlinkat,
};
use rustix::io::Errno;

use super::{DISK, IMAGE, LayeredDisk, PARTIAL, ROOT, Unmounted, point};
use crate::error::{DiskError, at};

impl LayeredDisk {
    /// Unmounts the disk and removes it, and its folder unless somebody else has put something
    /// there; none is success. A disk that is still in use stays.
    pub fn remove(&self) -> Result<(), DiskError> {
        Self::remove_folder(&self.folder)
    }

    /// The same for what is not known to be a disk: one that was never finished, or is half removed.
    pub fn remove_folder(folder: &Path) -> Result<(), DiskError> {
        let Some(disk) = Self::named(folder)? else { return Ok(()) };
        let lock = match disk.lock() {
            // Somebody else was faster.
            Err(DiskError::NotFound { .. }) => return Ok(()),
            lock => lock?,
        };
        if disk.unmount_locked(&lock)? == Unmounted::InUse {
            return Err(DiskError::InUse { folder: disk.folder });
        }
        // First what takes up space.
        for name in [IMAGE, PARTIAL] {
            match unlinkat(&lock, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(at("remove", &disk.folder.join(name))(error)),
            }
        }
        for name in [ROOT, DISK] {
            remove_point(&lock, name).map_err(at("remove", &disk.folder.join(name)))?;
        }
        match unlinkat(CWD, &disk.folder, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => Ok(()),
            Err(error) => Err(at("remove", &disk.folder)(error)),
        }
    }
}

fn remove_point(folder: impl AsFd, name: &str) -> io::Result<()> {
    let Some(released) = point::release(&folder, name)? else { return Ok(()) };
    empty(&released)?;
    Ok(unlinkat(&folder, name, AtFlags::REMOVEDIR)?)
}

/// Removes everything in a folder.
fn empty(folder: impl AsFd) -> io::Result<()> {
    let folder = folder.as_fd();
    let mut found = names(folder)?;
    let mut next = 0_u64;
    while let Some(name) = found.pop() {
        match unlinkat(folder, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        let inner = open_folder(folder, &name)?;
        for child in names(&inner)? {
            match unlinkat(&inner, &child, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR | Errno::PERM) => found.push(move_up(&inner, &child, folder, &mut next)?),
                Err(error) => return Err(error.into()),
            }
        }
        unlinkat(folder, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

/// Gives a folder a name of its own in the folder above its own.
fn move_up(inner: impl AsFd, child: &CString, folder: impl AsFd, next: &mut u64) -> io::Result<CString> {
    loop {
        *next += 1;
        let name = CString::new(format!("removing-{next}"))?;
        match renameat_with(&inner, child, &folder, &name, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(name),
            // Left by an earlier attempt.
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn names(folder: impl AsFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_owned();
        if ![c".", c".."].contains(&&*name) {
            names.push(name);
        }
    }
    Ok(names)
}

fn open_folder(parent: impl AsFd, name: &CString) -> io::Result<std::os::fd::OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    Ok(openat2(parent, name, flags, Mode::empty(), within)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_folder_is_emptied_and_nothing_outside_of_it_is() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("kept"), "kept").unwrap();
        let inside = |name: &str| folder.path().join(name);
        symlink(outside.path(), inside("link")).unwrap();
        fs::create_dir_all(inside("a/b/c")).unwrap();
        fs::create_dir_all(inside("removing-1/inner")).unwrap();
        fs::create_dir_all(inside("a/removing-2")).unwrap();
        symlink(outside.path(), inside("a/b/link")).unwrap();
        fs::write(inside("a/b/c/\n odd"), "x").unwrap();
        // Deeper than any path may be long.
        let mut deep = fs::File::open(inside("a")).map(std::os::fd::OwnedFd::from).unwrap();
        let name = CString::new("d".repeat(200)).unwrap();
        for _ in 0..100 {
            rustix::fs::mkdirat(&deep, &name, Mode::from_raw_mode(0o700)).unwrap();
            deep = open_folder(&deep, &name).unwrap();
        }

        empty(fs::File::open(folder.path()).unwrap()).unwrap();

        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(fs::read(outside.path().join("kept")).unwrap(), b"kept");
    }

    #[test]
    fn only_the_parts_of_a_disk_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        LayeredDisk::remove_folder(&parent.path().join("none")).unwrap();
        let (target, link) = (parent.path().join("target"), parent.path().join("link"));
        fs::create_dir_all(target.join("root/.ssh")).unwrap();
        fs::write(target.join("kept"), "kept").unwrap();
        symlink(&target, &link).unwrap();
        // A link, and a folder of the right name that was never a mount point.
        for folder in [&link, &target] {
            assert!(matches!(LayeredDisk::remove_folder(folder), Err(DiskError::Step { .. })));
        }
        assert!(target.join("root/.ssh").exists());
        fs::remove_dir_all(target.join("root")).unwrap();
        LayeredDisk::remove_folder(&target).unwrap();
        assert!(target.join("kept").exists());
        fs::remove_file(target.join("kept")).unwrap();
        LayeredDisk::remove_folder(&target).unwrap();
        assert!(!target.exists());
    }
}
