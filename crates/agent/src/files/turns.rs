//! Whose turn it is to change a file.
//!
//! An edit reads, thinks and replaces; what another edit or write puts there in between would
//! be lost. Each file is known by its folder and its name, whatever path or link led there.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::Stat;

use crate::error::CallError;

/// Files share turns by their hash: a fixed size, and now and then a wait that was not needed.
static TURNS: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

/// The right to replace a file, until it is dropped.
pub(crate) struct Turn {
    _guard: MutexGuard<'static, ()>,
}

impl Turn {
    /// Waits for the turn of a path that is not a link; its folder must exist.
    pub(crate) fn of_path(path: &Path) -> Result<Self, CallError> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let folder = rustix::fs::stat(folder).map_err(CallError::file(path))?;
        Ok(Self::of(&folder, path.file_name().unwrap_or_default()))
    }

    /// Waits for the turn of a name in a folder.
    pub(super) fn of(folder: &Stat, name: &OsStr) -> Self {
        let mut hasher = DefaultHasher::new();
        (folder.st_dev, folder.st_ino, name).hash(&mut hasher);
        let index = usize::try_from(hasher.finish() % TURNS.len() as u64).unwrap_or(0);
        let guard = TURNS[index].lock().unwrap_or_else(PoisonError::into_inner);
        Self { _guard: guard }
    }
}
