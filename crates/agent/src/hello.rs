//! The Hello call, and what a connection may do before and after it.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use emergent_protocol::{GENERATION, KEY_LENGTH, agree, v1};
use tonic::Status;

use crate::agent::Shared;

/// One connection's standing. What it holds is taken back when it is dropped with the
/// connection.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    greeted: AtomicBool,
}

impl Connection {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, greeted: AtomicBool::new(false) }
    }

    /// Whether Hello has succeeded on this very connection.
    pub(crate) fn has_greeted(&self) -> bool {
        self.greeted.load(Ordering::Relaxed)
    }

    /// Answers Hello. May be repeated, to add to the environment or to move the deadline.
    pub(crate) fn greet(&self, request: v1::HelloRequest) -> Result<v1::HelloResponse, Status> {
        // The key first: who does not know it learns nothing.
        if !is_key(&self.shared.config.key, &request.key) {
            return Err(Status::unauthenticated("this is not the sandbox's key"));
        }
        agree(request.generation).map_err(|error| Status::failed_precondition(error.to_string()))?;
        self.shared.environment.extend(request.environment)?;
        self.shared.lease.renew(request.deadline_unix_ms);
        if !self.greeted.swap(true, Ordering::Relaxed) {
            self.shared.lease.connected();
        }
        Ok(v1::HelloResponse {
            generation: GENERATION,
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            agent_uptime_ms: u64::try_from(self.shared.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.has_greeted() {
            self.shared.lease.disconnected();
        }
    }
}

/// Takes the same time wherever the first difference is.
fn is_key(key: &[u8; KEY_LENGTH], offered: &[u8]) -> bool {
    if offered.len() != KEY_LENGTH {
        return false;
    }
    let difference = key
        .iter()
        .zip(offered)
        .fold(0u8, |difference, (ours, theirs)| black_box(difference | (ours ^ theirs)));
    difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_key_is_the_key() {
        let key = [7; KEY_LENGTH];
        let mut last_differs = key;
        last_differs[KEY_LENGTH - 1] = 8;
        assert!(is_key(&key, &key));
        assert!(!is_key(&key, &last_differs));
        assert!(!is_key(&key, &key[1..]));
        assert!(!is_key(&key, b""));
    }
}
