//! Putting the layers in place.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, fstat, major, minor, openat};
use rustix::mount::MountAttrFlags;

use super::lock::FolderLock;
use super::{DISK, LayeredDisk, ROOT, UPPER, WORK, point};
use crate::error::{DiskError, at};
use crate::image::lock_when_detached;
use crate::loop_device::{LoopDevice, file_behind};
use crate::mountinfo::{MountEntry, mounts_within};
use crate::mounts::{Setting, attach, folder_in, mount_detached};

/// How long a loop device that has lost its last user may take to vanish.
pub(super) const DETACH_LIMIT: Duration = Duration::from_secs(5);

/// What an image or a sandbox puts on its disk is nobody's privilege on the host.
const ATTRIBUTES: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// What is mounted in the folder of a disk.
pub(super) struct Mounts {
    pub(super) disk: Vec<MountEntry>,
    pub(super) root: Vec<MountEntry>,
}

/// The folder below.
struct Lower {
    folder: OwnedFd,
    /// Says which folder it is, in the table of mounts. By numbers: an overlay's own account of
    /// its layers is no path that could be compared.
    label: String,
}

impl LayeredDisk {
    /// Whether a disk is mounted over this folder, wherever the disk is.
    pub fn is_lower_layer(folder: &Path) -> Result<bool, DiskError> {
        let lower = Lower::open(folder)?;
        let mounts = mounts_within(Path::new("/")).map_err(at("table of mounts", folder))?;
        Ok(mounts.iter().any(|entry| entry.kind == "overlay" && entry.source == *lower.label))
    }

    /// Mounts the disk, and the overlay of `lower` and the disk; as ordinary mounts of this process's
    /// mount namespace, with whatever propagation the folder has. Mounted already over the same
    /// folder is success, and half of it is completed.
    ///
    /// Of `lower` nothing is changed and nothing is followed. It must stay as it is as long as a
    /// disk is used with it.
    pub fn mount(&self, lower: &Path) -> Result<(), DiskError> {
        let lock = self.lock()?;
        if !self.has_image() {
            return Err(DiskError::NotFound { folder: self.folder.clone() });
        }
        let lower = Lower::open(lower)?;
        let Mounts { disk, root } = self.mounts()?;
        let mounted = match &disk[..] {
            [] => None,
            [entry] if self.is_behind(entry) => {
                self.thaw_if_frozen(&lock)?;
                point::mounted(&lock, DISK).map_err(at("mount point", &self.folder.join(DISK)))?
            }
            _ => return Err(DiskError::ForeignMount { path: self.folder.join(DISK) }),
        };
        match (&mounted, &root[..]) {
            (_, []) => {}
            (Some(_), [entry]) if entry.kind == "overlay" && entry.source == *lower.label => return Ok(()),
            (Some(_), [entry]) if entry.kind == "overlay" => {
                return Err(DiskError::OtherLower { folder: self.folder.clone() });
            }
            // Somebody has taken the disk away from below. Nobody can use it any more as it is.
            (None, [entry]) if entry.kind == "overlay" => self.take_off(ROOT)?,
            _ => return Err(DiskError::ForeignMount { path: self.root() }),
        }
        let disk = match mounted {
            Some(disk) => disk,
            None => self.mount_disk(&lock)?,
        };
        self.mount_overlay(&lock, &lower, &disk)
    }

    /// Whether both layers are mounted.
    pub fn is_mounted(&self) -> Result<bool, DiskError> {
        let Mounts { disk, root } = self.mounts()?;
        Ok(!disk.is_empty() && root.iter().any(|entry| entry.kind == "overlay"))
    }

    pub(super) fn mounts(&self) -> Result<Mounts, DiskError> {
        let mut mounts = Mounts { disk: Vec::new(), root: Vec::new() };
        for entry in mounts_within(&self.folder).map_err(at("table of mounts", &self.folder))? {
            match entry.point.strip_prefix(&self.folder) {
                Ok(point) if point == Path::new(DISK) => mounts.disk.push(entry),
                Ok(point) if point == Path::new(ROOT) => mounts.root.push(entry),
                _ => {}
            }
        }
        Ok(mounts)
    }

    /// Whether this mount is of this disk.
    fn is_behind(&self, entry: &MountEntry) -> bool {
        entry.kind == "ext4"
            && file_behind(Path::new(&entry.source)).is_ok_and(|behind| {
                fs::symlink_metadata(self.image()).is_ok_and(|image| behind == (image.dev(), image.ino()))
            })
    }

    fn mount_disk(&self, lock: &FolderLock) -> Result<OwnedFd, DiskError> {
        let path = self.folder.join(DISK);
        point::prepare(lock, DISK).map_err(at("mount point", &path))?;
        let place = folder_in(lock, DISK).map_err(at("mount point", &path))?;
        let image =
            lock_when_detached(&self.image(), Instant::now() + DETACH_LIMIT).map_err(|error| match error
                .kind()
            {
                io::ErrorKind::ResourceBusy => DiskError::InUse { folder: self.folder.clone() },
                _ => at("disk", &self.image())(error),
            })?;
        let device = LoopDevice::attach(&image).map_err(at("loop device", &self.image()))?;
        let settings = [
            Setting::Text("source", &device.path().to_string_lossy()),
            // The file is sparse: what was never written is zero already.
            Setting::Flag("noinit_itable"),
        ];
        let disk = mount_detached("ext4", &settings, ATTRIBUTES).map_err(at("disk mount", &path))?;
        attach(&disk, place).map_err(at("disk mount", &path))?;
        Ok(disk)
    }

    fn mount_overlay(&self, lock: &FolderLock, lower: &Lower, disk: &OwnedFd) -> Result<(), DiskError> {
        let path = self.root();
        point::prepare(lock, ROOT).map_err(at("mount point", &path))?;
        let place = folder_in(lock, ROOT).map_err(at("mount point", &path))?;
        let layer = |name| folder_in(disk, name).map_err(at("layer", &self.folder.join(DISK)));
        let (upper, work) = (layer(UPPER)?, layer(WORK)?);
        let settings = [
            Setting::Text("source", &lower.label),
            Setting::Text("lowerdir", &by_number(&lower.folder)),
            Setting::Text("upperdir", &by_number(&upper)),
            Setting::Text("workdir", &by_number(&work)),
            // What a kernel does by default is a matter of how it was built. Folders of the image
            // can be renamed; files are copied up whole; numbers of files are those of one disk
            // where they can be.
            Setting::Text("redirect_dir", "on"),
            Setting::Text("metacopy", "off"),
            Setting::Text("index", "off"),
            Setting::Text("nfs_export", "off"),
            Setting::Text("xino", "auto"),
        ];
        let root = mount_detached("overlay", &settings, ATTRIBUTES).map_err(at("overlay mount", &path))?;
        attach(&root, place).map_err(at("overlay mount", &path))
    }
}

impl Lower {
    fn open(path: &Path) -> Result<Self, DiskError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(CWD, path, flags, Mode::empty()).map_err(at("lower layer", path))?;
        let seen = fstat(&folder).map_err(at("lower layer", path))?;
        let label = format!("emergent-layers:{}:{}:{}", major(seen.st_dev), minor(seen.st_dev), seen.st_ino);
        Ok(Self { folder, label })
    }
}

/// A path that means an open folder. It has no characters that mean something to an overlay, on
/// no kernel, whatever the folder is called.
fn by_number(folder: &OwnedFd) -> String {
    PathBuf::from("/proc/self/fd").join(folder.as_fd().as_raw_fd().to_string()).display().to_string()
}
