//! Mounts as descriptors. A mount is made detached, with its attributes, and only then put in its
//! place, which is named by a descriptor too: at no moment is anything visible that is not yet
//! locked down, no path is resolved twice, and whoever dies in between leaves nothing behind.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, move_mount,
};

/// One setting of a file system to be mounted.
pub enum Setting<'a> {
    /// A word that stands alone.
    Flag(&'a str),
    /// A name and its value.
    Text(&'a str, &'a str),
}

/// A file system mounted nowhere yet.
pub fn mount_detached(
    kind: &str,
    settings: &[Setting<'_>],
    attributes: MountAttrFlags,
) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    let configured = settings
        .iter()
        .try_for_each(|setting| match setting {
            Setting::Flag(name) => fsconfig_set_flag(&context, *name),
            Setting::Text(name, value) => fsconfig_set_string(&context, *name, *value),
        })
        .and_then(|()| fsconfig_create(&context));
    if let Err(error) = configured {
        return Err(explained(error, context));
    }
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes).map_err(|error| explained(error, context))
}

/// Puts a detached mount on a folder or file.
pub fn attach(mount: &OwnedFd, place: impl AsFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, c"", place, c"", flags)?)
}

/// The folder `name` directly in `parent`, if it is a folder and nothing else: no link is
/// followed and no mount crossed.
pub fn folder_in(parent: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    openat2(
        parent,
        name,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV,
    )
    .map_err(|error| io::Error::new(error.kind(), format!("/{name} on the disk: {error}")))
}

/// Adds what the file system itself says about a failed mount.
fn explained(error: rustix::io::Errno, context: OwnedFd) -> io::Error {
    let mut text = [0; 1024];
    let length = std::fs::File::from(context).read(&mut text).unwrap_or(0);
    let said = String::from_utf8_lossy(&text[..length]);
    match said.trim() {
        "" => error.into(),
        said => io::Error::new(io::Error::from(error).kind(), format!("{error}: {said}")),
    }
}
