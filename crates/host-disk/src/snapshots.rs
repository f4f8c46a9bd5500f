//! Where copies of disks are kept, each with what is known about it.
//!
//! ```text
//!  <folder>/<name>/
//!    disk.img          the disk
//!    snapshot.json     the record: written last, removed first
//! ```
//!
//! What has a record is whole; whatever else is there is the remains of one.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::error::{DiskError, at};

const DISK: &str = "disk.img";
const RECORD: &str = "snapshot.json";
const PARTIAL_RECORD: &str = ".snapshot.json.partial";

/// A folder with copies of disks. One change of a copy at a time.
#[derive(Debug, Clone)]
pub struct DiskSnapshots {
    folder: PathBuf,
}

impl DiskSnapshots {
    /// The copies in this folder, which is made when it is first needed.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The folder of them all.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The disk of one.
    pub fn disk(&self, name: &str) -> PathBuf {
        self.folder.join(name).join(DISK)
    }

    /// Has a disk copied to where it belongs, and writes its record. What fails leaves remains.
    pub fn keep(
        &self,
        name: &str,
        record: &[u8],
        copy: impl FnOnce(&Path) -> Result<(), DiskError>,
    ) -> Result<(), DiskError> {
        let folder = self.folder.join(name);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(at("snapshot", &folder))?;
        copy(&folder.join(DISK))?;
        write_record(&folder, record).map_err(at("snapshot", &folder))
    }

    /// The record of a whole one.
    pub fn record(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.folder.join(name).join(RECORD)) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The names of all of them, whole or not, in no order.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    /// Removes one, whole or not; none at all is success.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let folder = self.folder.join(name);
        for name in [RECORD, PARTIAL_RECORD] {
            absent_is_fine(fs::remove_file(folder.join(name)))?;
        }
        absent_is_fine(fs::remove_dir_all(&folder))
    }
}

/// The name appears when the content is safe.
fn write_record(folder: &Path, content: &[u8]) -> io::Result<()> {
    let partial = folder.join(PARTIAL_RECORD);
    let mut file = File::create(&partial)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&partial, folder.join(RECORD))?;
    File::open(folder)?.sync_all()
}

fn absent_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
