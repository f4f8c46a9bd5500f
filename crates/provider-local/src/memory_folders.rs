//! The folders of a sandbox that are memory.

use std::io;
use std::os::fd::OwnedFd;

use emergent_types::ByteSize;
use rustix::fs::{FsWord, Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{FsPickFlags, fsconfig_reconfigure, fsconfig_set_string, fspick};

use crate::process::ProcessIdentity;

/// What the kernel calls a file system in memory.
const TMPFS: FsWord = 0x0102_1994;

/// Each with its size: together less than the memory they count against.
pub(crate) fn sizes(memory: ByteSize) -> [(&'static str, u64); 3] {
    let bytes = memory.bytes();
    [("tmp", bytes / 2), ("dev/shm", bytes / 4), ("run", bytes / 8)]
}

/// Gives those of a running sandbox the sizes that belong to this much memory. One that holds more already is
/// refused by the kernel.
pub(crate) fn resize(init: &ProcessIdentity, memory: ByteSize) -> io::Result<()> {
    let root = init.root()?;
    for (name, size) in sizes(memory) {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("/{name}: {error}"));
        set_size(&root, name, size).map_err(named)?;
    }
    Ok(())
}

/// Nothing that the sandbox can write is believed on the way: a link is not followed, and only the root of a mount
/// of memory is touched, which nobody inside can make, move or remove.
fn set_size(root: &OwnedFd, name: &str, size: u64) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder =
        openat2(root, name, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)?;
    if rustix::fs::fstatfs(&folder)?.f_type != TMPFS {
        return Err(io::Error::other("it is not memory"));
    }
    let mount = fspick(&folder, "", FsPickFlags::FSPICK_EMPTY_PATH | FsPickFlags::FSPICK_CLOEXEC)?;
    fsconfig_set_string(&mount, "size", size.to_string())?;
    Ok(fsconfig_reconfigure(&mount)?)
}
