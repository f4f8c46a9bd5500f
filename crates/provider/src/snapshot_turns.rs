//! Who may do something with a snapshot, and when.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use emergent_types::SnapshotId;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// One change of a snapshot at a time; any number of sandboxes may be made from it. Turns are taken
/// before those of sandboxes, and before a task or thread is started that holds them: those begin in any
/// order, and a deletion must not overtake what its caller has given up.
#[derive(Default)]
pub struct SnapshotTurns {
    turns: Mutex<HashMap<SnapshotId, Arc<RwLock<()>>>>,
}

/// The turn of whoever makes or deletes a snapshot.
pub type SnapshotToChange = OwnedRwLockWriteGuard<()>;

/// The turn of whoever makes a sandbox from one.
pub type SnapshotInUse = OwnedRwLockReadGuard<()>;

impl SnapshotTurns {
    /// Waits for the turn of whoever makes or deletes it.
    pub async fn to_change(&self, id: SnapshotId) -> SnapshotToChange {
        self.of(id).write_owned().await
    }

    /// Waits for the turn of whoever makes a sandbox from it.
    pub async fn to_use(&self, id: SnapshotId) -> SnapshotInUse {
        self.of(id).read_owned().await
    }

    fn of(&self, id: SnapshotId) -> Arc<RwLock<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(id).or_default())
    }
}
