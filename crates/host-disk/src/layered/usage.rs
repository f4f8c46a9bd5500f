//! How full a disk is.

use rustix::fs::fstatvfs;

use super::{DISK, LayeredDisk, point};
use crate::error::{DiskError, at};

/// How full a disk is, by its own file system's account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskUsage {
    /// What is taken, by files and by the file system itself.
    pub bytes_used: u64,
    /// What there is for both.
    pub bytes_total: u64,
    /// Files, folders and links.
    pub inodes_used: u64,
    /// How many there can be.
    pub inodes_total: u64,
}

impl LayeredDisk {
    /// How large the disk is, mounted or not.
    pub fn size(&self) -> Result<u64, DiskError> {
        let image = self.image();
        let found = std::fs::symlink_metadata(&image).map_err(at("disk", &image))?;
        Ok(found.len())
    }

    /// Asks the disk, which must be mounted. Waits for no other operation.
    pub fn usage(&self) -> Result<DiskUsage, DiskError> {
        let path = self.folder.join(DISK);
        let not_mounted = || DiskError::NotMounted { folder: self.folder.clone() };
        let folder = match std::fs::File::open(&self.folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(not_mounted()),
            folder => folder.map_err(at("state folder", &self.folder))?,
        };
        let disk =
            point::mounted(&folder, DISK).map_err(at("mount point", &path))?.ok_or_else(not_mounted)?;
        let seen = fstatvfs(&disk).map_err(at("usage", &path))?;
        Ok(DiskUsage {
            bytes_used: seen.f_blocks.saturating_sub(seen.f_bfree).saturating_mul(seen.f_frsize),
            bytes_total: seen.f_blocks.saturating_mul(seen.f_frsize),
            inodes_used: seen.f_files.saturating_sub(seen.f_ffree),
            inodes_total: seen.f_files,
        })
    }
}
