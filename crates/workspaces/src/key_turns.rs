//! Requests under the same key, one after the other: the second finds what the first has made.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

/// Who is at it, by key.
pub(crate) struct KeyTurns<K>(Mutex<HashMap<K, Arc<tokio::sync::Mutex<()>>>>);

impl<K> Default for KeyTurns<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> KeyTurns<K> {
    /// Returns when nobody else is at it, until what is returned is dropped.
    pub(crate) async fn take(&self, key: K) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that nobody holds or waits for are forgotten.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            turns.entry(key).or_default().clone()
        };
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_at_a_time_by_key_and_nothing_is_kept() {
        let turns = KeyTurns::default();
        let first = turns.take("a").await;
        let _other = turns.take("b").await;
        let mut second = std::pin::pin!(turns.take("a"));
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        drop(second.await);
        let _third = turns.take("a").await;
        assert_eq!(turns.0.lock().unwrap_or_else(PoisonError::into_inner).len(), 2);
    }
}
