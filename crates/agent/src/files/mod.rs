//! Files of the sandbox. The sandbox is the boundary: every path of its file system may be
//! named, relative ones start at the workspace.
//!
//! File work blocks, so it runs on the runtime's few blocking threads, one bounded piece at a
//! time: a reader or writer that stalls holds no thread (see [`threads`]). Pages of small files are the exception,
//! see there.

mod directory;
mod kind;
mod mime;
mod near_names;
mod page;
mod path;
mod read;
mod replace;
mod staged;
mod stale;
mod temporary;
mod text;
mod turns;
mod write;

pub(crate) use directory::list_directory;
pub(crate) use kind::stat;
pub(crate) use near_names::with_near_names;
pub(crate) use page::{CancelOnDrop, read_page};
pub(crate) use path::{plain, resolve};
pub(crate) use read::read_file;
pub(crate) use replace::{NewFile, Replacement, follow_links};
pub(crate) use temporary::{Temporary, is_unnamed, own_temporary};
pub(crate) use turns::{Turn, in_turn};
pub(crate) use write::write_file;

use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open};
use rustix::io::Errno;

use crate::error::CallError;
use crate::threads;

/// Runs blocking file work that is soon done.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CallError> + Send + 'static,
) -> Result<T, CallError> {
    threads::file_work(work).await.unwrap_or_else(broken_off)
}

/// Runs blocking file work that may take as long as the file is large.
pub(crate) async fn long_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CallError> + Send + 'static,
) -> Result<T, CallError> {
    threads::long_work(work).await.unwrap_or_else(broken_off)
}

/// It panicked, or the runtime is going away.
pub(crate) fn broken_off<T>() -> Result<T, CallError> {
    Err(CallError::File { path: "file work".into(), errno: Errno::CANCELED })
}

/// Opens a regular file for reading. Never waits: a pipe without a writer would, a device may.
pub(crate) fn open_regular(path: &Path) -> Result<(OwnedFd, Stat), CallError> {
    // Looked at first, because opening alone has effects on pipes and devices.
    open_seen(path, &rustix::fs::stat(path).map_err(CallError::file(path))?)
}

/// The same for a file that was looked at a moment ago.
fn open_seen(path: &Path, seen: &Stat) -> Result<(OwnedFd, Stat), CallError> {
    check_regular(path, seen)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = open(path, flags, Mode::empty()).map_err(CallError::file(path))?;
    // And again, because it may have become something else meanwhile.
    let stat = fstat(&file).map_err(CallError::file(path))?;
    check_regular(path, &stat)?;
    Ok((file, stat))
}

fn check_regular(path: &Path, stat: &Stat) -> Result<(), CallError> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(CallError::File { path: path.to_owned(), errno: Errno::ISDIR }),
        _ => Err(CallError::NotRegular { path: path.to_owned() }),
    }
}

/// Reads until the buffer is full or the file has ended.
pub(crate) fn read_full(file: &OwnedFd, buffer: &mut [u8], path: &Path) -> Result<usize, CallError> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::io::read(file, rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(CallError::file(path)(errno)),
        }
    }
    Ok(filled)
}
