//! Counting what is in a folder that somebody hostile may be changing.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat2, statat};
use rustix::io::Errno;

use super::{Bounds, Counted};

/// Folders inside each other that are looked into; each holds a descriptor while it is. What
/// lies deeper is no work of anybody's, and is not counted but noticed.
const MAX_DEPTH: usize = 256;

/// Names that one file may have on average. A file counts once however many it has, but each is
/// looked at.
const NAMES_PER_FILE: u64 = 4;

/// Counts blocks and files below a folder, until one of the bounds is reached.
pub(super) fn count(disk: OwnedFd, bounds: Bounds) -> io::Result<Counted> {
    let mut counted = Counted::default();
    let mut names = 0;
    // Files with several names, by what tells them apart.
    let mut known = HashSet::new();
    let mut open = vec![Dir::new(disk)?];
    loop {
        let depth = open.len();
        let Some(folder) = open.last_mut() else { break };
        let Some(entry) = folder.read() else {
            open.pop();
            continue;
        };
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        names += 1;
        if names > bounds.files.saturating_mul(NAMES_PER_FILE) {
            counted.uncounted = true;
            break;
        }
        let inside = folder.fd()?;
        let found = match statat(inside, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            // Removed since its folder was read.
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        let is_folder = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        if !is_folder && found.st_nlink > 1 && !known.insert(found.st_ino) {
            continue;
        }
        counted.files += 1;
        counted.bytes = counted.bytes.saturating_add(found.st_blocks.unsigned_abs().saturating_mul(512));
        if counted.files >= bounds.files || counted.bytes >= bounds.bytes {
            break;
        }
        if !is_folder {
            continue;
        }
        if depth == MAX_DEPTH {
            counted.uncounted = true;
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let way = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        match openat2(inside, name, flags, Mode::empty(), way) {
            Ok(inner) => open.push(Dir::new(inner)?),
            // Removed, or something else by now.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(Errno::ACCESS | Errno::PERM) => counted.uncounted = true,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    const PLENTY: Bounds = Bounds { bytes: 1 << 40, files: 100_000 };

    fn count_in(folder: &Path, bounds: Bounds) -> Counted {
        count(fs::File::open(folder).unwrap().into(), bounds).unwrap()
    }

    #[test]
    fn blocks_are_counted_once_and_links_are_not_followed() {
        let (disk, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("large"), vec![1; 8 << 20]).unwrap();
        let before = count_in(disk.path(), PLENTY);
        assert_eq!((before.bytes, before.files), (0, 0));
        fs::create_dir(disk.path().join("a")).unwrap();
        fs::write(disk.path().join("a/file"), vec![1; 1 << 20]).unwrap();
        for name in ["one", "two", "three"] {
            fs::hard_link(disk.path().join("a/file"), disk.path().join(name)).unwrap();
        }
        // As large as can be, and empty.
        fs::File::create(disk.path().join("sparse")).unwrap().set_len(1 << 40).unwrap();
        symlink(outside.path(), disk.path().join("folder-outside")).unwrap();
        symlink(outside.path().join("large"), disk.path().join("file-outside")).unwrap();
        symlink(".", disk.path().join("for-ever")).unwrap();
        let counted = count_in(disk.path(), PLENTY);
        assert_eq!(counted.files, 6, "{counted:?}");
        assert!(!counted.uncounted);
        assert!((1 << 20..(1 << 20) + (256 << 10)).contains(&counted.bytes), "{counted:?}");
    }

    #[test]
    fn counting_ends_where_it_is_too_much() {
        let disk = tempfile::tempdir().unwrap();
        for number in 0..100 {
            fs::write(disk.path().join(number.to_string()), vec![1; 4096]).unwrap();
        }
        assert_eq!(count_in(disk.path(), Bounds { files: 20, ..PLENTY }).files, 20);
        let counted = count_in(disk.path(), Bounds { bytes: 20 * 4096, ..PLENTY });
        assert_eq!((counted.files, counted.bytes), (20, 20 * 4096));
        // A file that has all the names.
        let disk = tempfile::tempdir().unwrap();
        fs::write(disk.path().join("file"), "x").unwrap();
        for number in 0..100 {
            fs::hard_link(disk.path().join("file"), disk.path().join(number.to_string())).unwrap();
        }
        let counted = count_in(disk.path(), Bounds { files: 20, ..PLENTY });
        assert!(counted.uncounted, "{counted:?}");
        assert_eq!(count_in(disk.path(), PLENTY).files, 1);
    }

    #[test]
    fn what_is_hidden_in_the_depth_is_noticed() {
        let disk = tempfile::tempdir().unwrap();
        let mut inner: OwnedFd = fs::File::open(disk.path()).unwrap().into();
        for _ in 0..MAX_DEPTH + 10 {
            rustix::fs::mkdirat(&inner, "d", Mode::from_raw_mode(0o700)).unwrap();
            inner = rustix::fs::openat(&inner, "d", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        assert!(count_in(disk.path(), PLENTY).uncounted);
    }
}
