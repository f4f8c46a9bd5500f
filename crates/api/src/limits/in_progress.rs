//! How much at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use emergent_store::{TokenId, TokenKind};

use super::too_many;
use crate::auth::Caller;
use crate::errors::ApiError;

/// Requests of one token at once.
const PER_TOKEN: usize = 256;

/// Requests at once of all tokens but administrators': fewer than there are connections.
const TOGETHER: usize = 768;

/// When a request may have ended.
const RETRY_SECONDS: u32 = 1;

/// The requests that are being served.
#[derive(Clone, Default)]
pub(crate) struct InProgress {
    counts: Arc<Mutex<Counts>>,
}

#[derive(Default)]
struct Counts {
    by_token: HashMap<TokenId, usize>,
    together: usize,
}

impl InProgress {
    /// A place for a request, kept until its answer is over. An administrator needs none.
    pub(crate) fn enter(&self, caller: &Caller) -> Result<Option<Place>, ApiError> {
        match caller.kind() {
            TokenKind::Admin => Ok(None),
            _ => self.take(caller.id()).map(Some),
        }
    }

    fn take(&self, token: TokenId) -> Result<Place, ApiError> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.together >= TOGETHER {
            return Err(too_many(
                "in_progress",
                "the server is serving as many requests as it can",
                RETRY_SECONDS,
            ));
        }
        let count = counts.by_token.entry(token).or_default();
        if *count >= PER_TOKEN {
            return Err(too_many("in_progress", "too many requests of this token at once", RETRY_SECONDS));
        }
        *count += 1;
        counts.together += 1;
        Ok(Place { in_progress: self.clone(), token })
    }
}

/// A request's place. Free again when dropped.
pub(crate) struct Place {
    in_progress: InProgress,
    token: TokenId,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.in_progress.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.together = counts.together.saturating_sub(1);
        if let Some(count) = counts.by_token.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                counts.by_token.remove(&self.token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_few_and_come_back() {
        let in_progress = InProgress::default();
        let (one, other) = (TokenId::generate(), TokenId::generate());
        let mut places: Vec<Place> = (0..PER_TOKEN).map(|_| in_progress.take(one).unwrap()).collect();
        assert!(in_progress.take(one).is_err());
        drop(in_progress.take(other).unwrap());
        places.pop();
        places.push(in_progress.take(one).unwrap());
        drop(places);
        let counts = in_progress.counts.lock().unwrap();
        assert!(counts.by_token.is_empty() && counts.together == 0);
    }
}
