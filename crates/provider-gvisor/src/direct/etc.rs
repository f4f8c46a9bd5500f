//! Files of `/etc` that a container engine would bring: without them a sandbox knows neither its own
//! name nor `localhost`.

use std::io::Write;
use std::path::Path;

use emergent_host_disk::replace_file;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fchmod, openat, openat2};
use rustix::io::Errno;

const HOSTS: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";

/// Writes what the image does not have, into a root in which nothing has run yet. The image is not
/// trusted: no link is followed, and what is there stays.
pub(super) fn complete(root: &Path, hostname: &str) -> std::io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = openat(CWD, root, flags, Mode::empty())?;
    let files =
        [("etc/hosts", format!("{HOSTS}127.0.1.1\t{hostname}\n")), ("etc/hostname", format!("{hostname}\n"))];
    for (path, content) in files {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        match openat2(&root, path, flags, Mode::from_raw_mode(0o644), within) {
            Ok(file) => {
                // Not left to this process's umask.
                fchmod(&file, Mode::from_raw_mode(0o644))?;
                std::fs::File::from(file).write_all(content.as_bytes())?;
            }
            // There is one; or the image has no such folder, or a link in its place.
            Err(Errno::EXIST | Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::XDEV) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Writes the name of a copy in the place of its original's, into a root that a guest has written to and that
/// nothing runs in. Whoever asks for the name of a running sandbox is told the right one anyway, so where this
/// cannot be done (a full disk, no such folder) the file stays as it was. What else a guest has written, such
/// as hosts of its own, is not touched.
pub(super) fn rename(root: &Path, hostname: &str) {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let renamed = openat(CWD, root, flags, Mode::empty())
        .map_err(std::io::Error::from)
        .and_then(|root| replace_file(root, "etc", "hostname", &format!("{hostname}\n")));
    if let Err(error) = renamed {
        tracing::debug!("{}: /etc/hostname stays as it was: {error}", root.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_missing_is_written_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        complete(root.path(), "name").unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "no folder is made");

        fs::create_dir(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/hosts"), "the image's own").unwrap();
        complete(root.path(), "name").unwrap();
        assert_eq!(fs::read_to_string(root.path().join("etc/hosts")).unwrap(), "the image's own");
        assert_eq!(fs::read_to_string(root.path().join("etc/hostname")).unwrap(), "name\n");
    }

    #[test]
    fn links_of_an_image_lead_nowhere() {
        let outside = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        symlink(outside.path(), root.path().join("etc")).unwrap();
        complete(root.path(), "name").unwrap();
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("etc")).unwrap();
        symlink(outside.path().join("made"), root.path().join("etc/hosts")).unwrap();
        complete(root.path(), "name").unwrap();
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
