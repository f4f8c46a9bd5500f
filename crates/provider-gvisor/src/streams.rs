//! The streams of sandboxes: the first connection of each until somebody wants it, and the means to
//! end them all with their sandbox.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use emergent_types::WorkspaceId;
use tokio_util::sync::CancellationToken;

use crate::stream::ProcessStream;

/// Streams by sandbox. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Streams {
    sandboxes: Arc<Mutex<HashMap<WorkspaceId, Entry>>>,
}

#[derive(Default)]
struct Entry {
    ended: CancellationToken,
    first: Option<ProcessStream>,
}

impl Streams {
    /// A sandbox is being started; streams of an earlier run end.
    pub(crate) fn begin(&self, id: WorkspaceId) -> CancellationToken {
        self.end(id);
        self.ended(id)
    }

    /// Is cancelled when the sandbox ends.
    pub(crate) fn ended(&self, id: WorkspaceId) -> CancellationToken {
        self.lock().entry(id).or_default().ended.clone()
    }

    /// Keeps a first connection for a while: one that nobody wants holds memory on both sides.
    pub(crate) fn keep_first(&self, id: WorkspaceId, stream: ProcessStream, kept: Duration) {
        let ended = {
            let mut sandboxes = self.lock();
            let entry = sandboxes.entry(id).or_default();
            entry.first = Some(stream);
            entry.ended.clone()
        };
        let streams = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(kept) => drop(streams.take_first(id)),
                () = ended.cancelled() => {}
            }
        });
    }

    /// The first connection, if nobody has had it.
    pub(crate) fn take_first(&self, id: WorkspaceId) -> Option<ProcessStream> {
        self.lock().get_mut(&id)?.first.take()
    }

    /// Ends every stream of a sandbox.
    pub(crate) fn end(&self, id: WorkspaceId) {
        if let Some(entry) = self.lock().remove(&id) {
            entry.ended.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Entry>> {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
