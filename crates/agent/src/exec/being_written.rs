//! Which output files are being written now: cleaning up leaves them alone.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

static NAMES: Mutex<BTreeSet<Vec<u8>>> = Mutex::new(BTreeSet::new());

/// Whoever becomes one of the finished files does so alone, so that the last one sees all of them.
static FINISHING: Mutex<()> = Mutex::new(());

/// The name of a file, for as long as it is being written. No two files have the same.
pub(super) struct BeingWritten {
    name: String,
}

impl BeingWritten {
    /// To be held before the file is there.
    pub(super) fn new(name: String) -> Self {
        names().insert(name.clone().into_bytes());
        Self { name }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for BeingWritten {
    fn drop(&mut self) {
        names().remove(self.name.as_bytes());
    }
}

/// Whether the file of this name is being written.
pub(super) fn is_being_written(name: &[u8]) -> bool {
    names().contains(name)
}

/// The turn to become a finished file.
pub(super) fn turn_to_finish() -> MutexGuard<'static, ()> {
    FINISHING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn names() -> MutexGuard<'static, BTreeSet<Vec<u8>>> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}
