//! Making a disk.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use super::{DISK, LayeredDisk, PARTIAL, ROOT, UPPER, WORK, point};
use crate::error::{DiskError, at};
use crate::geometry::Geometry;
use crate::grow::grow;
use crate::image::copy_sparse;
use crate::template::{TemplateContent, Templates};

/// What a new disk holds: the two folders that an overlay needs.
struct Layers;

impl TemplateContent for Layers {
    fn fingerprint(&self) -> &str {
        "layers"
    }

    fn write_to(&self, folder: &Path) -> io::Result<()> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        // The upper folder's mode is that of the sandbox's root.
        for (name, mode) in [("", 0o700), (UPPER, 0o755), (WORK, 0o700)] {
            let made = folder.join(name);
            fs::create_dir(&made)?;
            fs::set_permissions(&made, fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }
}

impl LayeredDisk {
    /// Makes an empty disk in a folder, which is made where it is missing; what contains it must exist.
    /// Finishes what an interrupted attempt has left, and overwrites no disk.
    ///
    /// `templates` is where formatted disks are kept, one per size; it is made when it is missing.
    pub fn create(folder: &Path, geometry: Geometry, templates: &Path) -> Result<Self, DiskError> {
        let template = Templates::new(templates.to_owned(), Layers).get(geometry)?;
        Self::create_as_copy(folder, &template, None)
    }

    /// Makes a disk as [`snapshot`](Self::snapshot) has kept it; otherwise like
    /// [`create`](Self::create). It is to be mounted over the same lower layer.
    pub fn create_from_snapshot(folder: &Path, snapshot: &Path) -> Result<Self, DiskError> {
        Self::create_as_copy(folder, snapshot, None)
    }

    /// The same with more room, if that is more.
    pub fn create_larger_from_snapshot(
        folder: &Path,
        snapshot: &Path,
        geometry: Geometry,
    ) -> Result<Self, DiskError> {
        Self::create_as_copy(folder, snapshot, Some(geometry.bytes()))
    }

    fn create_as_copy(folder: &Path, source: &Path, at_least: Option<u64>) -> Result<Self, DiskError> {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(at("state folder", folder)(error));
            }
            _ => {}
        }
        let not_found = || DiskError::NotFound { folder: folder.to_owned() };
        let disk = Self::named(folder)?.ok_or_else(not_found)?;
        let lock = disk.lock()?;
        if disk.has_image() {
            return Err(DiskError::AlreadyExists { folder: folder.to_owned() });
        }
        let made = disk.fill(&lock, source, at_least);
        drop(lock);
        if made.is_err()
            && let Err(remains) = disk.remove()
        {
            tracing::warn!("a failed create has left something: {remains}");
        }
        made.map(|()| disk)
    }

    fn fill(&self, lock: &super::FolderLock, source: &Path, at_least: Option<u64>) -> Result<(), DiskError> {
        for name in [DISK, ROOT] {
            point::prepare(lock, name).map_err(at("mount point", &self.folder.join(name)))?;
        }
        let partial = self.folder.join(PARTIAL);
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(at("disk copy", &partial)(error));
            }
            _ => {}
        }
        // Not written out: the first time that anything on it is, all of it is.
        copy_sparse(source, &partial).map_err(at("disk copy", &partial))?;
        if let Some(bytes) = at_least {
            grow(&partial, bytes).map_err(at("grow", &partial))?;
        }
        fs::rename(&partial, self.image()).map_err(at("disk copy", &partial))
    }
}
