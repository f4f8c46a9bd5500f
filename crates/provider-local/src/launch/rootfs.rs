//! The sandbox's root: its disk, with the host's system mounted over it, read-only.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use emergent_host_disk::{LoopDevice, lock_when_detached};
use rustix::mount::MountAttrFlags;

use super::identity;
use super::mounts::{Setting, attach, clone_detached, folder_in, mount_detached, restrict, shift_ids};
use super::request::{DiskContent, LaunchRequest};
use super::stage;
use crate::layout::{DISK_FOLDER, DISK_IMAGE};
use crate::means::{Accounts, DiskKind};

/// Where the agent's program is seen in a sandbox. A mount point at the root, which a running
/// sandbox can neither rename nor replace.
pub(crate) const AGENT_FOLDER: &str = ".emergent";

/// How long the mount of a sandbox that has just ended may take to vanish.
const DETACH_LIMIT: Duration = Duration::from_secs(5);

/// Mounts the disk, nowhere yet, with its ids shifted.
pub(crate) fn mount_disk(request: &LaunchRequest, user_namespace: impl AsFd) -> io::Result<OwnedFd> {
    let disk = match request.disk {
        DiskKind::Image => mount_image(request)?,
        DiskKind::Folder => {
            let folder = clone_detached(&request.state_folder.join(DISK_FOLDER), false)?;
            restrict(&folder, MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV)?;
            folder
        }
    };
    shift_ids(&disk, user_namespace.as_fd())
        .map_err(|error| io::Error::new(error.kind(), format!("shifting ids (needs Linux 5.12): {error}")))?;
    Ok(disk)
}

fn mount_image(request: &LaunchRequest) -> io::Result<OwnedFd> {
    let image = lock_when_detached(&request.state_folder.join(DISK_IMAGE), Instant::now() + DETACH_LIMIT)?;
    let device = LoopDevice::attach(&image)?;
    let disk = mount_detached(
        "ext4",
        &[
            Setting::Text("source", &device.path().to_string_lossy()),
            // The file is sparse: what was never written is zero already.
            Setting::Flag("noinit_itable"),
        ],
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )?;
    match request.content {
        // Only now is the disk as this program made it; from the first launch on its content
        // is the guest's.
        DiskContent::New => identity::write(&disk, request.workspace, Accounts::Many)?,
        DiskContent::Kept => {}
        DiskContent::Copied => identity::replace(&disk, request.workspace),
    }
    Ok(disk)
}

/// What is mounted over the disk.
pub(crate) struct Overmounts {
    mounts: Vec<(String, OwnedFd)>,
}

impl Overmounts {
    /// Takes views of the host's system and of the agent's program: without what is mounted
    /// below them, read-only, and without set-uid programs or devices.
    pub(crate) fn clone_from_host(request: &LaunchRequest) -> io::Result<Self> {
        let mut mounts = vec![(AGENT_FOLDER.to_owned(), clone_detached(&request.agent_folder, false)?)];
        for name in &request.system_folders {
            let folder = Path::new("/").join(name);
            // Without root, what is mounted below cannot be left out.
            let view = match clone_detached(&folder, false) {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => clone_detached(&folder, true)?,
                view => view?,
            };
            mounts.push((name.clone(), view));
        }
        for (_, mount) in &mounts {
            restrict(
                mount,
                MountAttrFlags::MOUNT_ATTR_RDONLY
                    | MountAttrFlags::MOUNT_ATTR_NOSUID
                    | MountAttrFlags::MOUNT_ATTR_NODEV,
            )?;
        }
        Ok(Self { mounts })
    }

    /// Puts them over the disk, which is in its place.
    pub(crate) fn attach(self, disk: &OwnedFd) -> io::Result<()> {
        self.mounts.iter().try_for_each(|(name, mount)| attach(mount, folder_in(disk, name)?))
    }
}

/// Puts the root together in the helper's own.
pub(crate) fn assemble(disk: &OwnedFd, over: Overmounts) -> io::Result<()> {
    attach(disk, stage::open_folder(stage::SANDBOX)?)?;
    over.attach(disk)
}
