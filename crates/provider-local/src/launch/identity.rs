//! What makes one sandbox's disk different from another's: its names, its machine id.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use emergent_host_disk::replace_file;
use emergent_types::WorkspaceId;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid, chownat, openat2, unlinkat};

use crate::means::Accounts;

/// The account the skeleton makes beside root.
const USER: u32 = 1000;

/// Writes them to a disk that no guest has touched yet and whose ids are not yet shifted.
pub(crate) fn write(disk: &OwnedFd, workspace: WorkspaceId, accounts: Accounts) -> io::Result<()> {
    let name = workspace.hostname();
    write_file(disk, "etc/hostname", &format!("{name}\n"))?;
    write_file(disk, "etc/machine-id", &format!("{}\n", workspace.as_uuid().simple()))?;
    write_file(
        disk,
        "etc/hosts",
        &format!("127.0.0.1\tlocalhost\n127.0.1.1\t{name}\n::1\tlocalhost ip6-localhost ip6-loopback\n"),
    )?;
    if accounts == Accounts::Many {
        chownat(
            disk,
            "home/user",
            Some(Uid::from_raw(USER)),
            Some(Gid::from_raw(USER)),
            AtFlags::SYMLINK_NOFOLLOW,
        )?;
    }
    // Made by mkfs; a sandbox has no use for it.
    match unlinkat(disk, "lost+found", AtFlags::REMOVEDIR) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Writes those of a copy in the place of its original's, to a disk that a guest has written to and whose ids
/// are not yet shifted. Where that cannot be done (a full disk, no such folder) they stay as they were: nothing
/// depends on them. What else a guest has written, such as hosts of its own, is not touched.
pub(crate) fn replace(disk: &OwnedFd, workspace: WorkspaceId) {
    let _ = replace_file(disk, "etc", "hostname", &format!("{}\n", workspace.hostname()));
    let _ = replace_file(disk, "etc", "machine-id", &format!("{}\n", workspace.as_uuid().simple()));
}

fn write_file(disk: impl AsFd, path: &str, text: &str) -> io::Result<()> {
    let file = openat2(
        disk,
        path,
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::from_raw_mode(0o644),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
    )?;
    File::from(file).write_all(text.as_bytes())
}
