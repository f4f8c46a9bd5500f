//! Connections, and which of them goes when there are too many.
//!
//! Anybody can open connections, and there are only so many. One over which no valid token has
//! come yet is worth the least, so when there is no room the oldest of those is closed, then
//! the longest open one that does nothing. An administrator who comes anew always gets in; one
//! who is being served is never closed.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::metrics::names;

/// Connections at once.
pub(crate) const MAX_CONNECTIONS: usize = 1024;

/// Connections at once over which no valid token has come.
const MAX_UNPROVEN: usize = 512;

/// One connection, as the requests on it see it.
pub(crate) struct Connection {
    id: u64,
    peer: IpAddr,
    /// Whether a request has begun on it.
    used: AtomicBool,
    /// Whether a valid token has come over it.
    proven: AtomicBool,
    /// Requests and answers that are under way on it.
    busy: AtomicUsize,
    /// How many requests have been given to the router.
    asked: AtomicU64,
    /// How many of them are not answered to the end of the answer's body.
    unanswered: AtomicUsize,
    /// Whether it has become something else than HTTP.
    taken_over: AtomicBool,
    close: Notify,
    /// Whether it is closed as soon as nobody uses it, whatever the client still sends.
    abandoned: AtomicBool,
    all: Connections,
}

impl Connection {
    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// The head of a request has come.
    pub(crate) fn use_it(self: &Arc<Self>) -> Busy {
        self.used.store(true, Ordering::Release);
        self.busy.fetch_add(1, Ordering::AcqRel);
        Busy(Arc::clone(self))
    }

    /// Whether the head of a request has ever come.
    pub(crate) fn was_used(&self) -> bool {
        self.used.load(Ordering::Acquire)
    }

    /// A request is given to the router. What is returned lives as long as its answer.
    pub(crate) fn ask(self: &Arc<Self>) -> Unanswered {
        self.unanswered.fetch_add(1, Ordering::AcqRel);
        self.asked.fetch_add(1, Ordering::AcqRel);
        Unanswered(Arc::clone(self))
    }

    /// How many requests have been given to the router, while none of them waits for anything.
    /// `None` while one does, or where this is not HTTP any more.
    pub(crate) fn answered(&self) -> Option<u64> {
        let quiet = self.unanswered.load(Ordering::Acquire) == 0 && !self.taken_over.load(Ordering::Acquire);
        quiet.then(|| self.asked.load(Ordering::Acquire))
    }

    /// It becomes something else than HTTP.
    pub(crate) fn take_over(&self) {
        self.taken_over.store(true, Ordering::Release);
    }

    /// A valid token has come over it.
    pub(crate) fn prove(&self) {
        self.proven.store(true, Ordering::Release);
    }

    /// Returns when this connection must make room.
    pub(crate) async fn must_close(&self) {
        self.close.notified().await;
    }

    /// It is closed as soon as nobody uses it, whatever the client still sends.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    /// Whether the client may be waited for at the end, so that it can read its answer.
    pub(crate) fn may_linger(&self) -> bool {
        !self.abandoned.load(Ordering::Acquire)
    }

    fn is_proven(&self) -> bool {
        self.proven.load(Ordering::Acquire)
    }

    fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Acquire) == 0
    }
}

/// That a request is under way.
pub(crate) struct Busy(Arc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

/// That a request is not answered to the end.
pub(crate) struct Unanswered(Arc<Connection>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.unanswered.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Every open connection, oldest first. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Connections {
    inner: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    next_id: u64,
    by_age: BTreeMap<u64, Arc<Connection>>,
}

impl Connections {
    /// Takes in a new connection, for which another may have to go. `None` where all others
    /// are busy with requests of valid tokens.
    pub(crate) fn enter(&self, peer: IpAddr) -> Option<Entered> {
        let mut open = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let unproven = open.by_age.values().filter(|connection| !connection.is_proven()).count();
        if unproven >= MAX_UNPROVEN || open.by_age.len() >= MAX_CONNECTIONS {
            let goes = open
                .by_age
                .values()
                .find(|connection| !connection.is_proven())
                .or_else(|| open.by_age.values().find(|connection| connection.is_idle()))
                .cloned();
            let Some(goes) = goes else {
                metrics::counter!(names::CONNECTIONS_CLOSED, "reason" => "full").increment(1);
                return None;
            };
            open.by_age.remove(&goes.id);
            goes.close.notify_one();
            metrics::counter!(names::CONNECTIONS_CLOSED, "reason" => "made_room").increment(1);
        }
        let id = open.next_id;
        open.next_id += 1;
        let connection = Arc::new(Connection {
            id,
            peer,
            used: AtomicBool::new(false),
            proven: AtomicBool::new(false),
            busy: AtomicUsize::new(0),
            asked: AtomicU64::new(0),
            unanswered: AtomicUsize::new(0),
            taken_over: AtomicBool::new(false),
            close: Notify::new(),
            abandoned: AtomicBool::new(false),
            all: self.clone(),
        });
        open.by_age.insert(id, Arc::clone(&connection));
        metrics::gauge!(names::CONNECTIONS).set(open.by_age.len() as f64);
        Some(Entered(connection))
    }
}

/// An open connection. Dropped, it is not open any more.
pub(crate) struct Entered(Arc<Connection>);

impl Entered {
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.0
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut open = self.0.all.inner.lock().unwrap_or_else(PoisonError::into_inner);
        open.by_age.remove(&self.0.id);
        metrics::gauge!(names::CONNECTIONS).set(open.by_age.len() as f64);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn closes(entered: &Entered) -> bool {
        use std::future::Future;
        let mut closing = std::pin::pin!(entered.connection().must_close());
        let waker = std::task::Waker::noop();
        closing.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_ready()
    }

    #[test]
    fn the_oldest_without_a_token_goes_first() {
        let all = Connections::default();
        let proven = all.enter(PEER).unwrap();
        proven.connection().prove();
        let mut strangers: Vec<Entered> = (0..MAX_UNPROVEN).map(|_| all.enter(PEER).unwrap()).collect();
        let newest = all.enter(PEER).unwrap();
        assert!(closes(&strangers[0]));
        assert!(!closes(&strangers[1]) && !closes(&proven) && !closes(&newest));
        strangers.clear();
        drop((proven, newest));
        assert!(all.inner.lock().unwrap().by_age.is_empty());
    }

    #[test]
    fn then_the_oldest_that_does_nothing() {
        let all = Connections::default();
        let users: Vec<Entered> = (0..MAX_CONNECTIONS).map(|_| all.enter(PEER).unwrap()).collect();
        // They must be proven before there are too many strangers.
        let users: Vec<Entered> = {
            drop(users);
            (0..MAX_CONNECTIONS)
                .map(|_| {
                    let entered = all.enter(PEER).unwrap();
                    entered.connection().prove();
                    entered
                })
                .collect()
        };
        let busy: Vec<Busy> = users.iter().map(|user| user.connection().use_it()).collect();
        assert!(all.enter(PEER).is_none(), "all are busy");
        let mut busy = busy;
        busy.remove(7);
        let newest = all.enter(PEER).unwrap();
        assert!(closes(&users[7]) && !closes(&newest));
    }
}
