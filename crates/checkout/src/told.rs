//! What was said once and need not be said again.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// More than this are not remembered at once.
const MAX: usize = 10_000;

/// What was said once.
pub(crate) struct Told<T>(Mutex<HashSet<T>>);

impl<T> Default for Told<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Hash + Eq> Told<T> {
    /// Remembers this. Returns whether it was not known.
    pub(crate) fn note(&self, what: T) -> bool {
        let mut told = self.lock();
        if told.len() >= MAX {
            told.clear();
        }
        told.insert(what)
    }

    pub(crate) fn has(&self, what: &T) -> bool {
        self.lock().contains(what)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
