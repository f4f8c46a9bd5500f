//! The bare steps that a sandbox cannot do without, one after another with nothing around
//! them: what a create is compared with.
//!
//! ```text
//!  mkfs.ext4 on a sparse file ─► loop device, mount ─► libcontainer: namespaces, limits, exec
//! ```
//!
//! Disk and limits are those of a workspace, and so are the namespaces. What the product adds
//! is left out: no agent, no seccomp filter, no socket, no record of anything.

mod container;
mod disk;
pub(crate) mod docker;
pub(crate) mod launcher;
mod loop_device;
pub(crate) mod runsc;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use container::BareContainer;
pub(crate) use container::LauncherTimes;
use disk::BareDisk;

/// How long each bare step took.
pub(crate) struct BareTimes {
    pub(crate) format: Duration,
    pub(crate) mount: Duration,
    /// From starting the launcher until the container's program was executed.
    pub(crate) container: Duration,
    pub(crate) launcher: LauncherTimes,
}

impl BareTimes {
    pub(crate) fn sum(&self) -> Duration {
        self.format + self.mount + self.container
    }
}

/// Makes a bare sandbox in an empty folder, and removes it. `name` must be unique on this
/// host.
pub(crate) fn make_and_remove(folder: &Path, name: &str) -> Result<BareTimes> {
    let (image, format) = disk::format(folder).context("bare mkfs")?;
    let (disk, mount) = BareDisk::mount(&image, &folder.join("root")).context("bare mount")?;
    disk.link_system_folders()?;
    let (container, times) = BareContainer::start(folder, disk.root(), name).context("bare container")?;
    container.remove()?;
    disk.unmount()?;
    Ok(BareTimes { format, mount, container: times.total, launcher: times })
}
