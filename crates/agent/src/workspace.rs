//! The folder that every tool starts in.
//!
//! Root of the sandbox may remove it like any other. A request that names no folder means it all the
//! same, so it is made again, empty: else no command could be run that does not know where else to
//! start.

use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Mode, OFlags, Uid, fchmod, fchown, mkdir, open, stat};
use rustix::io::Errno;

/// The folder, and what it was when the agent began.
pub(crate) struct Workspace {
    path: PathBuf,
    /// `None` when it was not there.
    first: Option<(Uid, Gid, Mode)>,
}

impl Workspace {
    pub(crate) fn new(path: PathBuf) -> Self {
        let first = stat(&path).ok().map(|stat| {
            let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
            (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid), mode)
        });
        Self { path, first }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it when it is missing. What is there instead, a link to nowhere too, is left alone.
    pub(crate) fn ensure(&self) {
        if matches!(stat(&self.path), Err(Errno::NOENT)) {
            // The request is told what is wrong with it when it gets there.
            let _ = self.make_again();
        }
    }

    /// Makes it, with the mode and owner that it had.
    pub(crate) fn make_again(&self) -> Result<(), Errno> {
        if let Some(parent) = self.path.parent() {
            let made = std::fs::create_dir_all(parent);
            made.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        }
        match mkdir(&self.path, Mode::from_raw_mode(0o755)) {
            Ok(()) => {}
            // By another request.
            Err(Errno::EXIST) => return Ok(()),
            Err(errno) => return Err(errno),
        }
        let Some((uid, gid, mode)) = self.first else { return Ok(()) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = open(&self.path, flags, Mode::empty())?;
        fchown(&folder, Some(uid), Some(gid))?;
        fchmod(&folder, mode)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn it_is_made_again_as_it_was() {
        assert!(
            rustix::process::geteuid().is_root(),
            "giving folders away needs root; run the tests as root"
        );
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("workspace");
        fs::create_dir(&path).unwrap();
        chown(&path, Some(1000), Some(1001)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o2770)).unwrap();
        let workspace = Workspace::new(path.clone());
        fs::write(path.join("file"), "").unwrap();
        workspace.ensure();
        assert!(path.join("file").exists());
        fs::remove_dir_all(&path).unwrap();
        for _ in 0..2 {
            workspace.ensure();
            let made = fs::metadata(&path).unwrap();
            assert_eq!((made.uid(), made.gid(), made.mode() & 0o7777), (1000, 1001, 0o2770));
        }
    }

    #[test]
    fn what_is_there_instead_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (root.path().join("workspace"), root.path().join("elsewhere"));
        let workspace = Workspace::new(path.clone());
        symlink(&elsewhere, &path).unwrap();
        workspace.ensure();
        assert!(path.is_symlink() && !elsewhere.exists());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        workspace.ensure();
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }
}
