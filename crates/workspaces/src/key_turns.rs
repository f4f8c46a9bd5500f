//! Requests under the same key, one after the other: the second finds what the first has made.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use emergent_store::{IdempotencyKey, TokenId};
use tokio::sync::OwnedMutexGuard;

type Name = (TokenId, String);

/// Who is at it, by key.
#[derive(Default)]
pub(crate) struct KeyTurns(Mutex<HashMap<Name, Arc<tokio::sync::Mutex<()>>>>);

impl KeyTurns {
    /// Returns when nobody else is at it, until what is returned is dropped.
    pub(crate) async fn take(&self, key: &IdempotencyKey) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that nobody holds or waits for are forgotten.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            turns.entry((key.owner, key.key.clone())).or_default().clone()
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
        let key = |text: &str| IdempotencyKey {
            owner: TokenId::from(uuid::Uuid::nil()),
            key: text.to_owned(),
            fingerprint: [0; 32],
        };
        let (same, other) = (key("a"), key("b"));
        let first = turns.take(&same).await;
        let _other = turns.take(&other).await;
        let mut second = std::pin::pin!(turns.take(&same));
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        drop(second.await);
        let _third = turns.take(&same).await;
        assert_eq!(turns.0.lock().unwrap_or_else(PoisonError::into_inner).len(), 2);
    }
}
