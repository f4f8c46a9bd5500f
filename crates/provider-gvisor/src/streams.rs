//! The streams of sandboxes: the first connection of each until somebody wants it, and the means to
//! end them all with their sandbox.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use emergent_types::WorkspaceId;
use tokio_util::sync::CancellationToken;

/// Streams by sandbox. Cheap to clone.
pub(crate) struct Streams<S> {
    sandboxes: Arc<Mutex<HashMap<WorkspaceId, Entry<S>>>>,
}

struct Entry<S> {
    ended: CancellationToken,
    first: Option<S>,
    /// Every relay has a clone while its stream is open.
    relays: Relay,
}

/// What a stream holds that runs over a relay: a process of the host's for as long as it is open, some
/// 20 MB with `runsc exec`. The first connection has none.
pub(crate) type Relay = Arc<()>;

impl<S> Default for Streams<S> {
    fn default() -> Self {
        Self { sandboxes: Arc::default() }
    }
}

impl<S> Clone for Streams<S> {
    fn clone(&self) -> Self {
        Self { sandboxes: Arc::clone(&self.sandboxes) }
    }
}

impl<S> Default for Entry<S> {
    fn default() -> Self {
        Self { ended: CancellationToken::new(), first: None, relays: Relay::default() }
    }
}

impl<S: Send + 'static> Streams<S> {
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
    pub(crate) fn keep_first(&self, id: WorkspaceId, stream: S, kept: Duration) {
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

    /// For a stream that runs over a relay.
    pub(crate) fn relay(&self, id: WorkspaceId) -> Relay {
        self.lock().entry(id).or_default().relays.clone()
    }

    /// Whether a stream is open that runs over a relay.
    pub(crate) fn has_relays(&self, id: WorkspaceId) -> bool {
        self.lock().get(&id).is_some_and(|entry| Arc::strong_count(&entry.relays) > 1)
    }

    /// The first connection, if nobody has had it.
    pub(crate) fn take_first(&self, id: WorkspaceId) -> Option<S> {
        self.lock().get_mut(&id)?.first.take()
    }

    /// Ends every stream of a sandbox.
    pub(crate) fn end(&self, id: WorkspaceId) {
        if let Some(entry) = self.lock().remove(&id) {
            entry.ended.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WorkspaceId, Entry<S>>> {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
