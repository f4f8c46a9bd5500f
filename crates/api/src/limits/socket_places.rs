//! How many WebSockets at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use emergent_store::{TokenId, TokenKind};

use crate::auth::Caller;
use crate::errors::{ApiError, ErrorCode};
use crate::metrics::names;

/// WebSockets of one token.
const PER_TOKEN: usize = 96;

/// WebSockets of all tokens but administrators'.
const TOGETHER: usize = 192;

/// The administrators' share.
const ADMINISTRATORS: usize = 64;

/// When one may have been closed.
const RETRY_SECONDS: u32 = 5;

/// The WebSockets that are open, or about to be.
#[derive(Clone, Default)]
pub(crate) struct SocketPlaces {
    counts: Arc<Mutex<Counts>>,
}

#[derive(Default)]
struct Counts {
    by_token: HashMap<TokenId, usize>,
    together: usize,
    administrators: usize,
}

impl SocketPlaces {
    /// A place for a WebSocket. To be taken before anything is begun for it.
    pub(crate) fn enter(&self, caller: &Caller) -> Result<SocketPlace, ApiError> {
        // Administrators have places of their own, and take them from nobody but each other.
        self.take((caller.kind() != TokenKind::Admin).then(|| caller.id()))
    }

    fn take(&self, token: Option<TokenId>) -> Result<SocketPlace, ApiError> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match token {
            None if counts.administrators >= ADMINISTRATORS => {
                return Err(refused("administrators have as many terminals and tunnels as there may be"));
            }
            None => counts.administrators += 1,
            Some(_) if counts.together >= TOGETHER => {
                return Err(refused("as many terminals and tunnels are open as there may be"));
            }
            Some(token) => {
                let count = counts.by_token.entry(token).or_default();
                if *count >= PER_TOKEN {
                    return Err(refused("too many terminals and tunnels of this token are open"));
                }
                *count += 1;
                counts.together += 1;
            }
        }
        Ok(SocketPlace { places: self.clone(), token })
    }
}

fn refused(message: &str) -> ApiError {
    metrics::counter!(names::RATE_LIMITED, "reason" => "sockets").increment(1);
    ApiError::new(ErrorCode::TooMany, message).retry_after(RETRY_SECONDS)
}

/// A WebSocket's place. Free again when dropped.
pub(crate) struct SocketPlace {
    places: SocketPlaces,
    /// `None` for an administrator's.
    token: Option<TokenId>,
}

impl Drop for SocketPlace {
    fn drop(&mut self) {
        let mut counts = self.places.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(token) = self.token else {
            counts.administrators = counts.administrators.saturating_sub(1);
            return;
        };
        counts.together = counts.together.saturating_sub(1);
        if let Some(count) = counts.by_token.get_mut(&token) {
            *count -= 1;
            if *count == 0 {
                counts.by_token.remove(&token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_the_places_of_others() {
        let places = SocketPlaces::default();
        let tokens = [(); 3].map(|()| Some(TokenId::generate()));
        let take = |token: Option<TokenId>, many: usize| -> Vec<SocketPlace> {
            (0..many).map(|_| places.take(token).unwrap()).collect()
        };
        let mut one = take(tokens[0], PER_TOKEN);
        assert!(places.take(tokens[0]).is_err(), "as many as one may have");
        let other = take(tokens[1], TOGETHER - PER_TOKEN);
        assert!(places.take(tokens[2]).is_err(), "as many as all may have");
        let administrators = take(None, ADMINISTRATORS);
        assert!(places.take(None).is_err());
        one.pop();
        drop(places.take(tokens[2]).unwrap());
        drop((one, other, administrators));
        let counts = places.counts.lock().unwrap();
        assert!(counts.by_token.is_empty() && counts.together == 0 && counts.administrators == 0);
    }
}
