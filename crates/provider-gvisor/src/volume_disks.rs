//! The disks of volumes with names: each a file system of its own, with nothing below it, of which workspaces see
//! one folder. That folder is the host's: whoever has it cannot put anything else in its place.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use emergent_host_disk::{DiskError, Geometry, LayeredDisk};
use emergent_provider::{VolumeMount, VolumeName};

/// The folder of a volume's file system that workspaces see.
const DATA: &str = "data";

/// Where the disks of a provider's volumes are. Everything here blocks.
#[derive(Debug, Clone)]
pub(crate) struct VolumeDisks {
    /// A folder for each volume, of its name.
    pub(crate) volumes: PathBuf,
    /// What is below all of them: a folder with nothing in it.
    pub(crate) below: PathBuf,
    /// Formatted disks, one per size.
    pub(crate) templates: PathBuf,
}

impl VolumeDisks {
    /// The folder that workspaces see, while the disk is mounted.
    pub(crate) fn data(&self, name: &VolumeName) -> PathBuf {
        self.folder(name).join("root").join(DATA)
    }

    /// Mounts the disk of a volume, which is made where it is not there, and finished where it is half made; what
    /// workspaces see of it. One that is there keeps its size.
    pub(crate) fn mount(&self, volume: &VolumeMount) -> Result<PathBuf, DiskError> {
        for folder in [&self.below, &self.volumes] {
            make_folder(folder)?;
        }
        let folder = self.folder(volume.name());
        let disk = match LayeredDisk::open(&folder) {
            Err(DiskError::NotFound { .. }) => {
                let geometry = Geometry::for_size(volume.size().bytes());
                LayeredDisk::create(&folder, geometry, &self.templates)?
            }
            disk => disk?,
        };
        disk.mount(&self.below)?;
        let data = self.data(volume.name());
        match disk.top_folders(&[DATA])?.iter().any(|name| name == DATA) {
            true => Ok(data),
            // A file or a link, which is not followed.
            false => Err(DiskError::Step {
                step: "folder of a volume",
                path: data,
                error: io::ErrorKind::NotADirectory.into(),
            }),
        }
    }

    /// Every volume that has a folder, whole or not.
    pub(crate) fn list(&self) -> io::Result<BTreeSet<VolumeName>> {
        let entries = match std::fs::read_dir(&self.volumes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            entries => entries?,
        };
        let mut found = BTreeSet::new();
        for entry in entries {
            found.extend(entry?.file_name().to_str().and_then(|name| name.parse().ok()));
        }
        Ok(found)
    }

    /// Unmounts the disk of a volume and removes it, whole or not; none is success.
    pub(crate) fn remove(&self, name: &VolumeName) -> Result<(), DiskError> {
        LayeredDisk::remove_folder(&self.folder(name))
    }

    fn folder(&self, name: &VolumeName) -> PathBuf {
        self.volumes.join(name.as_str())
    }
}

fn make_folder(folder: &Path) -> Result<(), DiskError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| DiskError::Step { step: "folder of volumes", path: folder.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_folder_is_listed_and_goes_with_it() {
        let base = tempfile::tempdir().unwrap();
        let [volumes, below, templates] =
            ["volumes", "below", "templates"].map(|name| base.path().join(name));
        let disks = VolumeDisks { volumes: volumes.clone(), below, templates };
        assert!(disks.list().unwrap().is_empty());
        // Half made: a disk that was being copied, and not even that. And two that are no volumes.
        for name in ["half", "empty", ".empty", "No-Volume"] {
            std::fs::create_dir_all(volumes.join(name)).unwrap();
        }
        std::fs::write(volumes.join("half/.disk.img.partial"), "x").unwrap();
        let names = ["empty", "half"].map(|name| name.parse::<VolumeName>().unwrap());
        assert_eq!(disks.list().unwrap(), BTreeSet::from(names.clone()));
        for name in &names {
            disks.remove(name).unwrap();
            disks.remove(name).unwrap();
        }
        assert!(disks.list().unwrap().is_empty() && volumes.join("No-Volume").is_dir());
    }
}
