//! What a provider should be able to say at once.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a provider that did not answer is not asked again: one waits for it, and not everybody.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// One kind of question to one provider.
#[derive(Default)]
pub(crate) struct Question {
    silent_until: Mutex<Option<Instant>>,
}

impl Question {
    /// The answer; `None` where it does not come in time, or did not a moment ago.
    pub(crate) async fn ask<T>(&self, limit: Duration, answer: impl Future<Output = T>) -> Option<T> {
        if self.was_not_answered() {
            return None;
        }
        let answer = tokio::time::timeout(limit, answer).await.ok();
        if answer.is_none() {
            *self.silent_until.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(Instant::now() + ASKED_AGAIN_AFTER);
        }
        answer
    }

    /// Whether nobody answered a moment ago.
    pub(crate) fn was_not_answered(&self) -> bool {
        let silent_until = *self.silent_until.lock().unwrap_or_else(PoisonError::into_inner);
        silent_until.is_some_and(|until| Instant::now() < until)
    }
}
