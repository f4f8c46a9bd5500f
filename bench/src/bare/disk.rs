//! A disk as a workspace has it: a sparse file with ext4, mounted through a loop device.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use emergent_types::ResourceLimits;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::launcher::FIRST_ID;
use super::loop_device::LoopDevice;

/// Folders at the root that hold the host's system.
pub(super) const SYSTEM: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Makes and formats a disk of a workspace's default size, with the options a workspace's disk
/// is formatted with. Nothing is put on it.
pub(super) fn format(folder: &Path) -> Result<(PathBuf, Duration)> {
    let bytes = ResourceLimits::WORKSPACE_DEFAULT.disk.bytes();
    let inodes = bytes / (16 << 10);
    let image = folder.join("disk.img");
    let start = Instant::now();
    File::create_new(&image)?.set_len(bytes)?;
    let output = Command::new("/sbin/mkfs.ext4")
        .args(["-q", "-F", "-b", "4096", "-m", "0", "-e", "remount-ro", "-N", &inodes.to_string(), "-E"])
        .arg(format!("lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner={FIRST_ID}:{FIRST_ID}"))
        .arg(&image)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .context("mkfs.ext4 cannot be started")?;
    let took = start.elapsed();
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok((image, took))
}

/// A mounted disk. Unmounted at the latest when dropped.
pub(super) struct BareDisk {
    root: PathBuf,
    mounted: bool,
}

impl BareDisk {
    pub(super) fn mount(image: &Path, root: &Path) -> Result<(Self, Duration)> {
        fs::create_dir(root)?;
        let start = Instant::now();
        let file = OpenOptions::new().read(true).write(true).open(image)?;
        let device = LoopDevice::attach(&file)?;
        mount(device.path(), root, c"ext4", MountFlags::NOSUID | MountFlags::NODEV, Some(c"noinit_itable"))?;
        let took = start.elapsed();
        Ok((Self { root: root.to_owned(), mounted: true }, took))
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where the host's system folders are links, there are the same links.
    pub(super) fn link_system_folders(&self) -> Result<()> {
        for name in SYSTEM {
            if let Ok(target) = fs::read_link(Path::new("/").join(name)) {
                symlink(target, self.root.join(name))?;
            }
        }
        Ok(())
    }

    pub(super) fn unmount(mut self) -> Result<()> {
        self.mounted = false;
        unmount(&self.root, UnmountFlags::empty()).with_context(|| self.root.display().to_string())
    }
}

impl Drop for BareDisk {
    fn drop(&mut self) {
        if self.mounted {
            // Something has failed already and is being reported.
            let _ = unmount(&self.root, UnmountFlags::DETACH);
        }
    }
}
