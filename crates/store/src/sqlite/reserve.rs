//! Room on the disk for what gives room back.
//!
//! That a workspace is to be destroyed is written down first, which a full disk would not allow: nobody could
//! make room by destroying anything. So `<database>.reserve` takes some room in good time, and gives way to
//! such a write. It is made again when there is room.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

/// Some hundred pages of the log: what others write meanwhile goes there too.
const BYTES: u64 = 1 << 20;

/// The file beside a database that takes the room.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
}

impl Reserve {
    /// The reserve of the database at `path`, taken where there is room for it.
    pub(super) fn of(database: &Path) -> Self {
        let mut name = database.as_os_str().to_owned();
        name.push(".reserve");
        let reserve = Self { path: name.into() };
        reserve.take();
        reserve
    }

    /// Takes the room, unless it is taken. Where there is none, or the file system cannot say that it is
    /// taken, everything works but on a full disk.
    pub(super) fn take(&self) {
        if fs::metadata(&self.path).is_ok_and(|found| found.len() == BYTES) {
            return;
        }
        if let Err(error) = self.try_to_take() {
            tracing::debug!(%error, "no room is kept for a full disk: {error}");
            // Half of it would be taken for the whole, or be in the way.
            let _ = fs::remove_file(&self.path);
        }
    }

    fn try_to_take(&self) -> io::Result<()> {
        let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&self.path)?;
        Ok(fallocate(&file, FallocateFlags::empty(), 0, BYTES)?)
    }

    /// Gives the room to whoever writes next. Returns whether there was any.
    pub(super) fn give(&self) -> bool {
        let given = fs::remove_file(&self.path).is_ok();
        if given {
            tracing::warn!("the disk of the database is full; the room that was kept for this is used");
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn room_is_really_taken_and_given_once() {
        let folder = tempfile::tempdir().unwrap();
        let reserve = Reserve::of(&folder.path().join("emergent.db"));
        let file = folder.path().join("emergent.db.reserve");
        let taken = fs::metadata(&file).unwrap();
        assert_eq!((taken.len(), taken.mode() & 0o777), (BYTES, 0o600));
        assert!(taken.blocks() * 512 >= BYTES, "not a file with holes");
        assert!(reserve.give() && !reserve.give());
        assert!(!file.exists());
        reserve.take();
        assert!(reserve.give(), "it was taken again");
    }
}
