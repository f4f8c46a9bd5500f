//! Disks that are mounted where nobody else can see it: in a sandbox's own mount namespace.
//!
//! To hold the file system still, somebody must have a descriptor on it. It is not taken from the sandbox:
//! what a process in there calls its root is its own choice, and may be a view of the host's. Instead the
//! loop device that holds the disk's file is mounted once more, nowhere: the kernel has one file system for
//! one device, so this is the sandbox's. No process of the sandbox is needed for it, and whoever dies in
//! between leaves no mount behind.
//!
//! ```text
//!  sandbox's namespace ── ext4 ──┐
//!                                ├── one file system ── loop device ── disk.img ──copy──► to
//!  nowhere ────────────── ext4 ──┘       held still meanwhile
//! ```

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::mount::MountAttrFlags;

use crate::error::{DiskError, at};
use crate::loop_device::LoopDevice;
use crate::mounts::{Setting, mount_detached};
use crate::one_moment::{FROZEN_LIMIT, Source, keep, make_room};

/// A file with a file system, which a loop device may hold. No two operations on one at a time; nobody
/// attaches it meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct HiddenDisk<'a> {
    image: &'a Path,
}

/// The file system of a disk. The device is held for as long, so that it is no other disk's.
struct Mounted {
    mount: OwnedFd,
    _device: LoopDevice,
}

impl<'a> HiddenDisk<'a> {
    /// The disk in this file, mounted or not.
    pub fn new(image: &'a Path) -> Self {
        Self { image }
    }

    /// Copies the disk to a file, which is replaced if it is there. What was written before is in the
    /// copy, what is written afterwards is not; while the copy is made, writes wait. The name
    /// appears when the copy is complete and safe on the host's disk.
    pub fn snapshot(self, to: &Path) -> Result<(), DiskError> {
        self.snapshot_within(to, FROZEN_LIMIT)
    }

    /// The same with another limit for the time in which writes wait. If that is not enough, nothing
    /// is kept.
    pub fn snapshot_within(self, to: &Path, limit: Duration) -> Result<(), DiskError> {
        keep(to, |partial| {
            make_room(partial)?;
            match self.mounted()? {
                Some(disk) => self.source().copy_mounted(disk.mount.as_fd(), partial, limit),
                None => self.source().copy_unmounted(partial),
            }
        })
    }

    /// Lets writes go on that a process which was killed has stopped. Also those of a sandbox that has ended
    /// since, whose disk would never become free.
    pub fn thaw(self) -> Result<(), DiskError> {
        match self.mounted()? {
            Some(disk) => self.source().thaw_if_frozen(disk.mount.as_fd()),
            None => Ok(()),
        }
    }

    fn mounted(self) -> Result<Option<Mounted>, DiskError> {
        let Some(device) = LoopDevice::holding(self.image).map_err(at("loop device", self.image))? else {
            return Ok(None);
        };
        let mount = mount_as_sandboxes_do(&device).map_err(at("mount", self.image))?;
        Ok(Some(Mounted { mount, _device: device }))
    }

    fn source(self) -> Source<'a> {
        Source { image: self.image, folder: self.image.parent().unwrap_or(self.image) }
    }
}

/// Where its sandbox has ended in this moment, the file system is mounted anew.
fn mount_as_sandboxes_do(device: &LoopDevice) -> io::Result<OwnedFd> {
    let source = device.path().to_string_lossy();
    let settings = [Setting::Text("source", &source), Setting::Flag("noinit_itable")];
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = mount_detached("ext4", &settings, attributes)?;
    // The mount itself names a place and cannot be asked for anything.
    let folder = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    Ok(rustix::fs::openat(&mount, c".", folder, rustix::fs::Mode::empty())?)
}
