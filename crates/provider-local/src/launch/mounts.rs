//! Mounts as descriptors. A mount is made detached, given its attributes, and only then put
//! in its place, which is named by a descriptor too: at no moment is anything visible that is
//! not yet locked down, and no path is resolved twice.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

pub(crate) use emergent_host_disk::{Setting, attach, folder_in, mount_detached};
use libcontainer::syscall::linux::MountAttr;
use libcontainer::syscall::syscall::SyscallType;
use rustix::fs::CWD;
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};

/// A second view of a folder or file of the host's, mounted nowhere yet.
pub(crate) fn clone_detached(path: &Path, recursive: bool) -> io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    open_tree(CWD, path, flags)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Changes a detached mount and whatever came with it: adds attributes, and cuts it off from
/// mounts that are made or removed on the host later.
pub(crate) fn restrict(mount: &OwnedFd, attributes: MountAttrFlags) -> io::Result<()> {
    set_attributes(mount, attributes, 0, libc::AT_RECURSIVE)
}

/// Shifts the ids of a detached mount: what is owned by root on disk is owned by the
/// namespace's root.
pub(crate) fn shift_ids(mount: &OwnedFd, user_namespace: BorrowedFd<'_>) -> io::Result<()> {
    set_attributes(mount, MountAttrFlags::MOUNT_ATTR_IDMAP, user_namespace.as_raw_fd() as u64, 0)
}

fn set_attributes(
    mount: &OwnedFd,
    attributes: MountAttrFlags,
    userns_fd: u64,
    reach: libc::c_int,
) -> io::Result<()> {
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
            (libc::AT_EMPTY_PATH | reach) as u32,
            &change,
            size_of::<MountAttr>(),
        )
        .map_err(io::Error::other)
}

/// A name for the kernel.
pub(crate) const HERE: &CStr = c".";
