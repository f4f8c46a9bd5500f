//! Files in a file system that a guest has written to and that nothing runs on.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, fchmod, openat, openat2, renameat, unlinkat};
use rustix::io::Errno;

/// What a file is called until it is whole.
const PARTIAL: &str = ".emergent.partial";

/// Puts a file that everybody may read into a folder directly below a root, in the place of whatever has
/// that name. Nothing of the guest's is read or followed, only replaced: where the folder is no folder, or a
/// folder has the file's name, it is an error and everything stays as it is.
pub fn replace_file(root: impl AsFd, folder: &str, name: &str, content: &str) -> io::Result<()> {
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat2(root, folder, flags, Mode::empty(), within)?;
    match unlinkat(&folder, PARTIAL, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let mode = Mode::from_raw_mode(0o644);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&folder, PARTIAL, flags, mode)?;
    // Not left to this process's umask.
    let written = fchmod(&file, mode)
        .map_err(io::Error::from)
        .and_then(|()| io::Write::write_all(&mut std::fs::File::from(file), content.as_bytes()))
        .and_then(|()| Ok(renameat(&folder, PARTIAL, &folder, name)?));
    if written.is_err() {
        let _ = unlinkat(&folder, PARTIAL, AtFlags::empty());
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn whatever_has_the_name_is_replaced_and_nothing_is_followed() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let etc = root.path().join("etc");
        let replace = || replace_file(File::open(root.path()).unwrap(), "etc", "hostname", "new\n");
        assert!(replace().is_err(), "no folder is made");
        fs::create_dir(&etc).unwrap();
        let name = etc.join("hostname");
        let check = || {
            replace().unwrap();
            assert_eq!(fs::read_to_string(&name).unwrap(), "new\n");
            let mode = fs::symlink_metadata(&name).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o644);
            assert_eq!(fs::read_dir(&etc).unwrap().count(), 1);
        };
        check();
        // A link out, a second name of another file, a pipe that nobody reads; and so is what is in the way.
        fs::write(outside.path().join("kept"), "kept").unwrap();
        fs::remove_file(&name).unwrap();
        symlink(outside.path().join("kept"), &name).unwrap();
        symlink(outside.path().join("made"), etc.join(PARTIAL)).unwrap();
        check();
        fs::remove_file(&name).unwrap();
        fs::hard_link(outside.path().join("kept"), &name).unwrap();
        check();
        fs::remove_file(&name).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&name).status().unwrap().success());
        check();
        fs::remove_file(&name).unwrap();
        fs::create_dir(&name).unwrap();
        assert!(replace().is_err() && name.is_dir());
        assert_eq!(fs::read_dir(&etc).unwrap().count(), 1);
        fs::remove_dir_all(&etc).unwrap();
        symlink(outside.path(), &etc).unwrap();
        assert!(replace().is_err());
        assert_eq!(fs::read_to_string(outside.path().join("kept")).unwrap(), "kept");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }
}
