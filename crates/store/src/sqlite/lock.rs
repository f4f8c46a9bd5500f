//! One server per database.
//!
//! `<database>.lock` is locked with `flock` and stays locked while the store lives; the kernel
//! lets go of it when the process ends, however it ends. The file itself is never removed:
//! removing it would let two processes lock two different files of the same name.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::OpenError;

/// Proof that no other server uses the database.
#[derive(Debug)]
pub(super) struct DatabaseLock {
    /// Open is locked. Not inherited by programs this process starts.
    _file: File,
}

impl DatabaseLock {
    /// Locks the database at `path`, which need not exist yet.
    pub(super) fn acquire(path: &Path) -> Result<Self, OpenError> {
        let lock_path = lock_path(path);
        let inaccessible = |cause| OpenError::Inaccessible { path: lock_path.clone(), cause };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(inaccessible)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let holder = read_pid(&mut file).map(|pid| format!("process {pid}"));
                return Err(OpenError::AlreadyInUse { database: path.display().to_string(), holder });
            }
            Err(errno) => return Err(inaccessible(errno.into())),
        }
        write_pid(&mut file).map_err(inaccessible)?;
        Ok(Self { _file: file })
    }
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// For the message only: the lock is what counts, not this number.
fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim_end().parse().ok()
}
