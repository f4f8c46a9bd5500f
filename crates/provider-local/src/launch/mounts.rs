//! Mounts as descriptors. A mount is made detached, given its attributes, and only then put
//! in its place, which is named by a descriptor too: at no moment is anything visible that is
//! not yet locked down, and no path is resolved twice.

use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use libcontainer::syscall::linux::MountAttr;
use libcontainer::syscall::syscall::SyscallType;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

/// One setting of a file system to be mounted.
pub(crate) enum Setting<'a> {
    Flag(&'a str),
    Text(&'a str, &'a str),
}

/// A file system mounted nowhere yet.
pub(crate) fn mount_detached(
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

/// A second view of a folder or file of the host's, mounted nowhere yet.
pub(crate) fn clone_detached(path: &Path, recursive: bool) -> io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    open_tree(CWD, path, flags)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Changes a detached mount: adds attributes, and cuts it off from mounts that are made or
/// removed on the host later.
pub(crate) fn restrict(mount: &OwnedFd, attributes: MountAttrFlags) -> io::Result<()> {
    set_attributes(mount, attributes, 0)
}

/// Shifts the ids of a detached mount: what is owned by root on disk is owned by the
/// namespace's root.
pub(crate) fn shift_ids(mount: &OwnedFd, user_namespace: BorrowedFd<'_>) -> io::Result<()> {
    set_attributes(mount, MountAttrFlags::MOUNT_ATTR_IDMAP, user_namespace.as_raw_fd() as u64)
}

fn set_attributes(mount: &OwnedFd, attributes: MountAttrFlags, userns_fd: u64) -> io::Result<()> {
    let change = MountAttr {
        attr_set: attributes.bits().into(),
        attr_clr: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd,
    };
    SyscallType::Linux
        .create_syscall()
        .mount_setattr(
            mount.as_fd(),
            Path::new(""),
            libc::AT_EMPTY_PATH as u32,
            &change,
            size_of::<MountAttr>(),
        )
        .map_err(io::Error::other)
}

/// Puts a detached mount on a folder or file.
pub(crate) fn attach(mount: &OwnedFd, place: impl AsFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, c"", place, c"", flags)?)
}

/// The folder `name` directly in `parent`, if it is a folder and nothing else: no link is
/// followed and no mount crossed.
pub(crate) fn folder_in(parent: impl AsFd, name: &str) -> io::Result<OwnedFd> {
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

/// A name for the kernel.
pub(crate) const HERE: &CStr = c".";
