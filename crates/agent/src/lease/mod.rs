//! How long a sandbox lives without a control plane.
//!
//! ```text
//!  start ──► nothing told ───── an hour passed ─────────────────────────► over
//!                 │
//!                 ▼
//!  Hello(deadline) ──► leased ── deadline passed, nobody connected,
//!       ▲                │       nobody heard of for the silence limit ──► over
//!       └── next Hello ──┘
//! ```
//!
//! A control plane that died, or was uninstalled, must not leave sandboxes running for ever.
//! One that is alive either holds a connection or comes back well within the limit. What is known
//! outlives the agent: see [`Record`].

mod record;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;

pub(crate) use record::Record;

/// How often the clock is looked at; it may be set while a sleep runs.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// How long a sandbox lives that nobody has ever greeted. A member of a pool has as long.
const UNGREETED_LIMIT: Duration = Duration::from_secs(60 * 60);

/// What is known of the control plane.
pub(crate) struct Lease {
    silence_limit: Duration,
    state: Mutex<State>,
    changed: Notify,
    /// Where the state is written for the agent that comes after this one.
    record: Option<Record>,
}

/// What the control plane has said of the sandbox's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// It has not greeted yet.
    Nothing,
    /// There is none.
    NoDeadline,
    /// Not before this.
    Deadline { unix_ms: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    told: Told,
    /// Connections that have greeted and are open.
    connections: usize,
    /// Before the first greeting: when the sandbox was started.
    last_heard: Instant,
}

impl Lease {
    /// Goes on from what is in the record.
    pub(crate) fn new(silence_limit: Duration, record: Option<Record>) -> Self {
        let now = Instant::now();
        let state = record.as_ref().and_then(Record::read).map_or(State::new(now), |state| state.alone(now));
        Self { silence_limit, state: Mutex::new(state), changed: Notify::new(), record }
    }

    /// A Hello: this deadline holds from now on; 0 is none.
    pub(crate) fn renew(&self, deadline_unix_ms: u64) {
        self.change(|state| {
            state.told = match deadline_unix_ms {
                0 => Told::NoDeadline,
                unix_ms => Told::Deadline { unix_ms },
            };
            state.last_heard = Instant::now();
        });
    }

    /// A connection has greeted.
    pub(crate) fn connected(&self) {
        self.change(|state| state.connections += 1);
    }

    /// Such a connection is gone.
    pub(crate) fn disconnected(&self) {
        self.change(|state| {
            state.connections = state.connections.saturating_sub(1);
            state.last_heard = Instant::now();
        });
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

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        if let Some(record) = &self.record {
            // A page that is there already. Where it cannot be written, the next agent knows less.
            let _ = record.write(&state);
        }
        drop(state);
        self.changed.notify_one();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Nothing has been said yet.
    pub(crate) fn new(now: Instant) -> Self {
        Self { told: Told::Nothing, connections: 0, last_heard: now }
    }

    /// The same without the connections, which went with their agent.
    pub(crate) fn alone(self, now: Instant) -> Self {
        match self.connections {
            0 => self,
            _ => Self { connections: 0, last_heard: now, ..self },
        }
    }

    /// Whether the sandbox's time is over.
    pub(crate) fn is_over(&self, silence_limit: Duration) -> bool {
        self.remaining(SystemTime::now(), Instant::now(), silence_limit) == Some(Duration::ZERO)
    }

    /// How long until the end if nothing is heard; `None` is for ever.
    fn remaining(&self, wall: SystemTime, now: Instant, silence_limit: Duration) -> Option<Duration> {
        if self.connections > 0 {
            return None;
        }
        let until = |limit| (self.last_heard + limit).saturating_duration_since(now);
        let until_deadline = match self.told {
            Told::Nothing => until(UNGREETED_LIMIT),
            Told::NoDeadline => return None,
            Told::Deadline { unix_ms } => {
                let since_epoch = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
                Duration::from_millis(unix_ms).saturating_sub(since_epoch)
            }
        };
        Some(until_deadline.max(until(silence_limit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = minutes(10);

    const fn minutes(number: u64) -> Duration {
        Duration::from_secs(60 * number)
    }

    #[test]
    fn deadline_and_silence_must_both_be_over() {
        let now = Instant::now();
        // The deadline is in whole milliseconds.
        let since_epoch = minutes(30_000_000);
        let wall = UNIX_EPOCH + since_epoch;
        let at = |since_epoch: Duration| Told::Deadline {
            unix_ms: u64::try_from(since_epoch.as_millis()).expect("fits"),
        };
        let check = |told: Told, connections, heard_ago, expect: Option<Duration>| {
            let state = State { told, connections, last_heard: now - heard_ago };
            assert_eq!(state.remaining(wall, now, LIMIT), expect, "{state:?}");
        };
        check(Told::NoDeadline, 0, minutes(600), None);
        check(at(since_epoch + minutes(30)), 0, minutes(600), Some(minutes(30)));
        check(at(since_epoch - minutes(30)), 0, minutes(4), Some(minutes(6)));
        check(at(since_epoch - minutes(30)), 0, minutes(10), Some(Duration::ZERO));
        check(at(since_epoch - minutes(30)), 1, minutes(600), None);
        // Whatever somebody wrote into the record.
        check(Told::Deadline { unix_ms: 0 }, 0, minutes(10), Some(Duration::ZERO));
        let last = Duration::from_millis(u64::MAX);
        check(Told::Deadline { unix_ms: u64::MAX }, 0, minutes(10), Some(last - since_epoch));
    }

    #[test]
    fn whom_nobody_has_greeted_ends_an_hour_after_its_start() {
        let now = Instant::now();
        let remaining = |ago, limit| State::new(now - ago).remaining(SystemTime::now(), now, limit);
        assert_eq!(remaining(minutes(0), LIMIT), Some(minutes(60)));
        assert_eq!(remaining(minutes(45), LIMIT), Some(minutes(15)));
        assert_eq!(remaining(minutes(60), LIMIT), Some(Duration::ZERO));
        assert_eq!(remaining(minutes(60), minutes(90)), Some(minutes(30)));
    }

    #[test]
    fn the_next_agent_goes_on_from_what_the_last_one_was_told() {
        let record = Record::new().expect("a file in memory");
        let next = || Lease::new(LIMIT, Some(record.clone()));
        let told = |lease: &Lease| {
            let state = lease.lock();
            (state.told, state.connections)
        };
        let first = next();
        assert_eq!(told(&first), (Told::Nothing, 0));
        first.renew(17);
        first.connected();
        assert_eq!(record.read().map(|state| state.connections), Some(1));
        let second = next();
        assert_eq!(told(&second), (Told::Deadline { unix_ms: 17 }, 0), "its connections are gone");
        second.renew(0);
        assert_eq!(told(&next()), (Told::NoDeadline, 0), "the last greeting holds");
    }

    #[tokio::test]
    async fn an_agent_that_starts_after_the_end_says_so() {
        let record = Record::new().expect("a file in memory");
        let first = Lease::new(Duration::ZERO, Some(record.clone()));
        first.renew(1);
        let second = Lease::new(Duration::ZERO, Some(record));
        tokio::time::timeout(Duration::from_secs(10), second.over()).await.expect("it is over");
    }

    #[test]
    fn silence_is_counted_from_when_the_agent_died_only_where_somebody_was_connected() {
        let now = Instant::now();
        let earlier = now - minutes(5);
        let check = |connections, expect| {
            let state = State { told: Told::NoDeadline, connections, last_heard: earlier };
            let alone = State { told: Told::NoDeadline, connections: 0, last_heard: expect };
            assert_eq!(state.alone(now), alone);
        };
        check(0, earlier);
        check(2, now);
    }
}
