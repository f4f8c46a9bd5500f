//! `/proc`, made sure of: it is a procfs, and nothing was mounted over the file.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, fstatfs, openat, openat2};
use rustix::io::Errno;

use crate::error::Error;
use crate::flags::OpenFlags;

/// Below what a path starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcfsBase {
    /// `/proc`.
    ProcRoot,
    /// `/proc/self`.
    ProcSelf,
}

/// An opened procfs.
#[derive(Debug)]
pub struct ProcfsHandle {
    root: OwnedFd,
}

impl ProcfsHandle {
    /// Opens `/proc` and makes sure that it is one.
    pub fn new() -> Result<Self, Error> {
        let path = Path::new("/proc");
        let failed = |cause| Error::new("open", path, cause);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, path, flags, Mode::empty()).map_err(failed)?;
        if fstatfs(&root).map_err(failed)?.f_type != PROC_SUPER_MAGIC {
            return Err(failed(Errno::XDEV));
        }
        Ok(Self { root })
    }

    /// Opens a file of it. A mount over the file, or a link out of it, is an error.
    pub fn open(&self, base: ProcfsBase, path: impl AsRef<Path>, flags: OpenFlags) -> Result<File, Error> {
        let path = match base {
            ProcfsBase::ProcRoot => path.as_ref().to_owned(),
            ProcfsBase::ProcSelf => Path::new("self").join(path),
        };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS;
        openat2(&self.root, &path, flags.0 | OFlags::CLOEXEC, Mode::empty(), resolve)
            .map(File::from)
            .map_err(|cause| Error::new("open below /proc", &path, cause))
    }
}

/// Makes handles.
#[derive(Debug, Default)]
pub struct ProcfsHandleBuilder;

impl ProcfsHandleBuilder {
    /// A builder.
    pub fn new() -> Self {
        Self
    }

    /// All of `/proc`, not only what every process may see. This implementation makes no
    /// difference: it opens what the caller's `/proc` has.
    pub fn unmasked(self) -> Self {
        self
    }

    /// The handle.
    pub fn build(self) -> Result<ProcfsHandle, Error> {
        ProcfsHandle::new()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn own_files_are_opened_and_nothing_beyond() {
        let procfs = ProcfsHandle::new().unwrap();
        let mut status = String::new();
        let mut file = procfs.open(ProcfsBase::ProcSelf, "status", OpenFlags::O_RDONLY).unwrap();
        file.read_to_string(&mut status).unwrap();
        assert!(status.contains(&format!("Pid:\t{}", std::process::id())));
        for escape in ["../../etc/passwd", "root/etc/passwd", "cwd/Cargo.toml", "exe", "/etc/passwd"] {
            assert!(procfs.open(ProcfsBase::ProcSelf, escape, OpenFlags::O_RDONLY).is_err(), "{escape}");
        }
    }
}
