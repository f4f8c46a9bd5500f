//! How far checkouts are.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use emergent_types::WorkspaceId;

/// A checkout that is under way.
#[derive(Default)]
pub(crate) struct Transfer {
    url: String,
    attempt: u32,
    received: AtomicU64,
}

impl Transfer {
    pub(crate) fn receive(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    fn describe(&self) -> String {
        let kib = self.received.load(Ordering::Relaxed) / 1024;
        let again = if self.attempt > 1 { format!(", attempt {}", self.attempt) } else { String::new() };
        format!("cloning {}: {}.{} MiB received{again}", self.url, kib / 1024, (kib % 1024) * 10 / 1024)
    }
}

/// The checkouts that are under way, one of a workspace at a time.
#[derive(Default)]
pub(crate) struct Transfers(Mutex<HashMap<WorkspaceId, Arc<Transfer>>>);

impl Transfers {
    /// Begins to count, until the answer is dropped.
    pub(crate) fn begin(&self, id: WorkspaceId, url: &str, attempt: u32) -> Counting<'_> {
        let transfer = Arc::new(Transfer { url: url.to_owned(), attempt, ..Transfer::default() });
        self.lock().insert(id, transfer);
        Counting { transfers: self, id }
    }

    pub(crate) fn find(&self, id: WorkspaceId) -> Option<Arc<Transfer>> {
        self.lock().get(&id).cloned()
    }

    /// How far it is, for people.
    pub(crate) fn describe(&self, id: WorkspaceId) -> Option<String> {
        self.find(id).map(|transfer| transfer.describe())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<WorkspaceId, Arc<Transfer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One that is counted.
pub(crate) struct Counting<'a> {
    transfers: &'a Transfers,
    id: WorkspaceId,
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.transfers.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_received_is_told() {
        let (transfers, id) = (Transfers::default(), WorkspaceId::generate());
        assert_eq!(transfers.describe(id), None);
        let counting = transfers.begin(id, "https://a/b", 2);
        transfers.find(id).unwrap().receive(3 * 1024 * 1024 + 512 * 1024);
        assert_eq!(transfers.describe(id).unwrap(), "cloning https://a/b: 3.5 MiB received, attempt 2");
        drop(counting);
        assert_eq!(transfers.describe(id), None);
    }
}
