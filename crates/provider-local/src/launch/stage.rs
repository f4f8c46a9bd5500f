//! The helper's own root: a tiny one, in memory, in a mount namespace of its own.
//!
//! ```text
//!  /            tmpfs of the helper alone
//!  ├── proc     the host's
//!  ├── dev      the host's, for null, zero, random, tty
//!  ├── sys      the host's, and of the control groups only those that are used
//!  ├── bundle   config.json for libcontainer
//!  ├── state    libcontainer's own notes
//!  └── sandbox  the root the sandbox will have
//! ```
//!
//! Everything `libcontainer` does happens in here. The host's file system is not reachable
//! any more, so nothing on a disk that a guest has written to, link or otherwise, can lead
//! there; `libcontainer` works as the sandbox's own root user, for whom the state folder is
//! closed; and when the last process is gone, all of it is gone.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{MountAttrFlags, MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::process::{fchdir, pivot_root};

use super::kernel;
use super::mounts::{HERE, Setting, attach, clone_detached, mount_detached};
use crate::cgroup::{Cgroups, ROOT};

/// Where the sandbox's root is put.
pub(crate) const SANDBOX: &str = "/sandbox";
/// Where `libcontainer` finds its configuration.
pub(crate) const BUNDLE: &str = "/bundle";
/// Where `libcontainer` keeps its notes.
pub(crate) const STATE: &str = "/state";

/// Moves the helper into its own root. Only descriptors opened before lead back to the host.
pub(crate) fn enter(cgroups: &Cgroups, any_folder: &Path) -> io::Result<()> {
    kernel::unshare_mounts()?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;

    let root = mount_detached(
        "tmpfs",
        &[Setting::Text("size", "1m"), Setting::Text("mode", "0755")],
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )?;
    // Not recursive: what others have mounted in there is none of our business, and a fresh
    // proc can be mounted in a user namespace only where one without cover is visible.
    let proc = clone_detached(Path::new("/proc"), false)?;
    let sys = clone_detached(Path::new("/sys"), false)?;
    // Recursive: inside a container every device may be a mount of its own.
    let dev = clone_detached(Path::new("/dev"), true)?;
    let groups = ControlGroups::clone_from_host(cgroups)?;

    // On any folder at all, since it becomes the root in the next moment.
    attach(&root, open_folder(&any_folder.to_string_lossy())?)?;
    fchdir(&root)?;
    pivot_root(HERE, HERE)?;
    unmount(HERE, UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;

    for folder in ["/proc", "/sys", "/dev", SANDBOX, BUNDLE, STATE] {
        fs::create_dir(folder)?;
    }
    for (mount, place) in [(&proc, "/proc"), (&sys, "/sys"), (&dev, "/dev")] {
        attach(mount, open_folder(place)?)?;
    }
    groups.attach()
}

/// A folder of the helper's own root.
pub(crate) fn open_folder(path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty())
        .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}

/// A file or folder of this process's own root.
pub(crate) fn open_file(path: &str) -> io::Result<OwnedFd> {
    openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}

/// The control groups the helper sees.
enum ControlGroups {
    V1 { cover: OwnedFd, hierarchies: Vec<(String, OwnedFd)> },
    V2 { hierarchy: OwnedFd },
}

impl ControlGroups {
    fn clone_from_host(cgroups: &Cgroups) -> io::Result<Self> {
        match cgroups {
            Cgroups::V1(v1) => {
                let cover =
                    mount_detached("tmpfs", &[Setting::Text("size", "64k")], MountAttrFlags::empty())?;
                let hierarchies = v1
                    .used()
                    .into_iter()
                    .map(|point| Ok((point.to_string_lossy().into_owned(), clone_detached(point, false)?)))
                    .collect::<io::Result<_>>()?;
                Ok(Self::V1 { cover, hierarchies })
            }
            Cgroups::V2(_) => Ok(Self::V2 { hierarchy: clone_detached(Path::new(ROOT), false)? }),
            Cgroups::None => Err(io::Error::other("libcontainer needs control groups")),
        }
    }

    fn attach(self) -> io::Result<()> {
        match self {
            Self::V1 { cover, hierarchies } => {
                attach(&cover, open_folder(ROOT)?)?;
                for (point, hierarchy) in hierarchies {
                    fs::create_dir(&point)?;
                    attach(&hierarchy, open_folder(&point)?)?;
                }
                Ok(())
            }
            Self::V2 { hierarchy } => attach(&hierarchy, open_folder(ROOT)?),
        }
    }
}
