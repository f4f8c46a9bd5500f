//! A folder as the root of everything that is resolved below it.

use std::fs::{File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};
use rustix::io::Errno;

use crate::error::Error;
use crate::flags::OpenFlags;

/// A folder that is the root of what is resolved below it: absolute links start there, and
/// `..` does not lead out.
#[derive(Debug)]
pub struct Root {
    folder: OwnedFd,
}

/// Something below a root, resolved once and for all.
#[derive(Debug)]
pub struct Handle {
    inode: OwnedFd,
}

impl From<Handle> for OwnedFd {
    fn from(handle: Handle) -> Self {
        handle.inode
    }
}

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

impl Root {
    /// Opens the folder itself, by the caller's own view of paths.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let folder = openat(CWD, path, FOLDER | OFlags::CLOEXEC, Mode::empty());
        let folder = folder.map_err(|cause| Error::new("open root", path, cause))?;
        Ok(Self { folder })
    }

    /// What a path names.
    pub fn resolve(&self, path: impl AsRef<Path>) -> Result<Handle, Error> {
        let path = path.as_ref();
        let inode = self.open_inside(path, OFlags::PATH, Mode::empty());
        inode.map(|inode| Handle { inode }).map_err(|cause| Error::new("resolve", path, cause))
    }

    /// Makes a folder and whatever is missing above it.
    pub fn mkdir_all(&self, path: impl AsRef<Path>, permissions: &Permissions) -> Result<Handle, Error> {
        let path = path.as_ref();
        let failed = |cause| Error::new("make folder", path, cause);
        let mode = Mode::from_raw_mode(permissions.mode());
        let mut inode = self.open_inside(Path::new("/"), FOLDER, Mode::empty()).map_err(failed)?;
        let mut made = PathBuf::from("/");
        for name in plain_names(path).map_err(failed)? {
            let parent = inode;
            made.push(name);
            inode = match self.open_inside(&made, FOLDER, Mode::empty()) {
                Err(Errno::NOENT) => {
                    match mkdirat(&parent, name, mode) {
                        // Somebody else was faster: as good.
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(cause) => return Err(failed(cause)),
                    }
                    self.open_inside(&made, FOLDER, Mode::empty()).map_err(failed)?
                }
                result => result.map_err(failed)?,
            };
        }
        Ok(Handle { inode })
    }

    /// Makes a file whose folder is there.
    pub fn create_file(
        &self,
        path: impl AsRef<Path>,
        flags: OpenFlags,
        permissions: &Permissions,
    ) -> Result<File, Error> {
        let path = path.as_ref();
        let mode = Mode::from_raw_mode(permissions.mode());
        let file = self.open_inside(path, flags.0 | OFlags::CREATE, mode);
        file.map(File::from).map_err(|cause| Error::new("create file", path, cause))
    }

    fn open_inside(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        openat2(&self.folder, path, flags | OFlags::CLOEXEC, mode, resolve)
    }
}

/// The names a path is made of. `..` has no place in a path that is to be made.
fn plain_names(path: &Path) -> Result<Vec<&std::ffi::OsStr>, Errno> {
    path.components()
        .filter(|component| !matches!(component, Component::RootDir | Component::CurDir))
        .map(|component| match component {
            Component::Normal(name) => Ok(name),
            _ => Err(Errno::INVAL),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_leads_out_of_the_root() {
        let outside = tempfile::tempdir().unwrap();
        let inside = outside.path().join("root");
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(outside.path().join("secret"), "").unwrap();
        symlink("../secret", inside.join("relative")).unwrap();
        symlink(outside.path().join("secret"), inside.join("absolute")).unwrap();
        symlink("..", inside.join("up")).unwrap();
        let root = Root::open(&inside).unwrap();
        for path in ["relative", "absolute", "/absolute", "../secret", "up/secret"] {
            assert!(root.resolve(path).is_err(), "{path}");
        }
        let permissions = Permissions::from_mode(0o755);
        root.mkdir_all("up/made/below", &permissions).unwrap();
        assert!(inside.join("made/below").is_dir(), "a link upwards stays inside");
        assert!(!outside.path().join("made").exists());
        assert!(root.mkdir_all("a/../../b", &permissions).is_err());
    }

    #[test]
    fn folders_and_files_are_made() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::open(folder.path()).unwrap();
        let permissions = Permissions::from_mode(0o755);
        root.mkdir_all("/a/b/c", &permissions).unwrap();
        root.mkdir_all("/a/b/c", &permissions).unwrap();
        let exclusive = OpenFlags::O_CREAT | OpenFlags::O_EXCL | OpenFlags::O_NOFOLLOW;
        root.create_file("a/b/c/file", exclusive, &permissions).unwrap();
        assert!(root.create_file("a/b/c/file", exclusive, &permissions).is_err());
        let inode: OwnedFd = root.resolve("/a/b/c/file").unwrap().into();
        assert!(File::from(inode).metadata().unwrap().is_file());
    }
}
