//! Whose turn it is to change a file.
//!
//! An edit reads, thinks and replaces; what another edit or write puts there in between would
//! be lost. Each file is known by its folder and its name, whatever path or link led there.
//! Whoever waits for its turn occupies no thread.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use rustix::fs::Stat;
use tokio::sync::{Mutex, MutexGuard};

use crate::error::CallError;

use super::blocking;
use super::replace::Replacement;

/// Files share turns by their hash: a fixed size, and now and then a wait that was not needed.
static TURNS: [Mutex<()>; 64] = [const { Mutex::const_new(()) }; 64];

/// The right to replace a file, until it is dropped.
pub(crate) struct Turn {
    _guard: MutexGuard<'static, ()>,
}

impl Turn {
    /// Waits for the turn of a path that is not a link; its folder must exist.
    pub(crate) async fn of_path(path: &Path) -> Result<Self, CallError> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let folder = rustix::fs::stat(folder).map_err(CallError::file(path))?;
        let turn = turn_of(&folder, path.file_name().unwrap_or_default());
        Ok(Self { _guard: turn.lock().await })
    }

    /// The turn that a replacement needs, if nobody else has it.
    pub(super) fn now(replacement: &Replacement) -> Result<Option<Self>, CallError> {
        let (folder, name) = replacement.place()?;
        Ok(turn_of(&folder, name).try_lock().ok().map(|guard| Self { _guard: guard }))
    }
}

/// Makes a replacement ready and puts it in its place in the file's turn.
pub(crate) async fn in_turn<T: Send + 'static>(
    make_ready: impl FnOnce() -> Result<Replacement, CallError> + Send + 'static,
    put: impl FnOnce(Replacement, Turn) -> Result<T, CallError> + Send + 'static,
) -> Result<T, CallError> {
    // Nearly always nobody else wants the file, and all of it is one piece of work.
    let done = blocking(move || {
        let ready = make_ready()?;
        match Turn::now(&ready)? {
            Some(turn) => put(ready, turn).map(Ok),
            None => Ok(Err((ready, put))),
        }
    });
    let (ready, put) = match done.await? {
        Ok(done) => return Ok(done),
        Err(waiting) => waiting,
    };
    let turn = {
        let (folder, name) = ready.place()?;
        turn_of(&folder, name)
    };
    let turn = Turn { _guard: turn.lock().await };
    blocking(move || put(ready, turn)).await
}

fn turn_of(folder: &Stat, name: &OsStr) -> &'static Mutex<()> {
    let mut hasher = DefaultHasher::new();
    (folder.st_dev, folder.st_ino, name).hash(&mut hasher);
    let index = usize::try_from(hasher.finish() % TURNS.len() as u64).unwrap_or(0);
    &TURNS[index]
}
