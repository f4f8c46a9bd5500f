//! How long a sandbox lives without a control plane.
//!
//! ```text
//!  Hello(deadline) ──► leased ── deadline passed, nobody connected,
//!       ▲                │       nobody heard of for the silence limit ──► over
//!       └── next Hello ──┘
//! ```
//!
//! A control plane that died, or was uninstalled, must not leave sandboxes running for ever.
//! One that is alive either holds a connection or comes back well within the limit.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;

/// How often the clock is looked at; it may be set while a sleep runs.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// What is known of the control plane.
pub(crate) struct Lease {
    silence_limit: Duration,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    deadline: Option<SystemTime>,
    /// Connections that have greeted and are open.
    connections: usize,
    last_heard: Instant,
}

impl Lease {
    pub(crate) fn new(silence_limit: Duration) -> Self {
        let state = State { deadline: None, connections: 0, last_heard: Instant::now() };
        Self { silence_limit, state: Mutex::new(state), changed: Notify::new() }
    }

    /// A Hello: this deadline holds from now on; 0 is none.
    pub(crate) fn renew(&self, deadline_unix_ms: u64) {
        let deadline = UNIX_EPOCH.checked_add(Duration::from_millis(deadline_unix_ms));
        let mut state = self.lock();
        state.deadline = deadline.filter(|_| deadline_unix_ms != 0);
        state.last_heard = Instant::now();
        drop(state);
        self.changed.notify_one();
    }

    /// A connection has greeted.
    pub(crate) fn connected(&self) {
        self.lock().connections += 1;
    }

    /// Such a connection is gone.
    pub(crate) fn disconnected(&self) {
        let mut state = self.lock();
        state.connections = state.connections.saturating_sub(1);
        state.last_heard = Instant::now();
        drop(state);
        self.changed.notify_one();
    }

    /// Returns when the sandbox's time is over.
    pub(crate) async fn over(&self) {
        loop {
            let remaining = self.lock().remaining(SystemTime::now(), Instant::now(), self.silence_limit);
            match remaining {
                Some(Duration::ZERO) => return,
                Some(remaining) => {
                    let _ = tokio::time::timeout(remaining.min(LOOK_INTERVAL), self.changed.notified()).await;
                }
                None => self.changed.notified().await,
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// How long until the end if nothing is heard; `None` is for ever.
    fn remaining(&self, wall: SystemTime, now: Instant, silence_limit: Duration) -> Option<Duration> {
        let deadline = self.deadline.filter(|_| self.connections == 0)?;
        let until_deadline = deadline.duration_since(wall).unwrap_or_default();
        let until_silent = (self.last_heard + silence_limit).saturating_duration_since(now);
        Some(until_deadline.max(until_silent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadline_and_silence_must_both_be_over() {
        let (wall, now) = (SystemTime::now(), Instant::now());
        let minutes = |number: u64| Duration::from_secs(60 * number);
        let limit = minutes(10);
        let check = |deadline: Option<SystemTime>, connections, heard_ago, expect: Option<Duration>| {
            let state = State { deadline, connections, last_heard: now - heard_ago };
            assert_eq!(state.remaining(wall, now, limit), expect);
        };
        check(None, 0, minutes(600), None);
        check(Some(wall + minutes(30)), 0, minutes(600), Some(minutes(30)));
        check(Some(wall - minutes(30)), 0, minutes(4), Some(minutes(6)));
        check(Some(wall - minutes(30)), 0, minutes(10), Some(Duration::ZERO));
        check(Some(wall - minutes(30)), 1, minutes(600), None);
    }
}
