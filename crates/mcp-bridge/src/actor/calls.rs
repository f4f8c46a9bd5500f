//! The calls that a process has, as data: which are in flight, which wait for their turn.
//!
//! With `serialize` there is one turn:
//!
//! ```text
//!   Free ──sent──► Taken ──answered──► Free
//!                    │ given up
//!                    ▼
//!                 Settling ──late answer, or enough time──► Free
//! ```

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::command::{Answer, Hold, Submission};
use crate::hub::after;
use crate::session::{CallNumber, CallState, Session};

/// A request that the server has.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) number: CallNumber,
    pub(crate) deadline: Option<Instant>,
    /// No deadline is put off beyond this.
    pub(crate) last: Instant,
    pub(crate) origin: Origin,
}

/// Whose request it is.
#[derive(Debug)]
pub(crate) enum Origin {
    Client(Waiter, Effect),
    Own(Own),
}

/// Who waits for the answer, and what they called it.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) session: Option<Arc<Session>>,
    /// The id as the client wrote it.
    pub(crate) id: String,
    /// The progress token as the client wrote it.
    pub(crate) token: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) state: Arc<CallState>,
    pub(crate) answer: oneshot::Sender<Answer>,
    #[expect(dead_code, reason = "held, not read")]
    pub(crate) hold: Option<Arc<Hold>>,
}

/// What the answer to a client's request means to the bridge beyond passing it on.
#[derive(Debug)]
pub(crate) enum Effect {
    None,
    Subscribed(String),
}

/// Requests of the bridge's own.
#[derive(Debug)]
pub(crate) enum Own {
    Subscribe(String),
    Listen,
    /// Nothing follows from the answer.
    Idle,
}

#[derive(Debug, Clone, Copy)]
enum Turn {
    /// There are no turns.
    Unneeded,
    Free,
    Taken(u64),
    Settling {
        id: u64,
        until: Instant,
    },
}

/// All calls of a process. Ids are never used twice.
#[derive(Debug)]
pub(crate) struct Calls {
    last_id: u64,
    flying: HashMap<u64, Flight>,
    ids: HashMap<CallNumber, u64>,
    deadlines: BTreeSet<(Instant, CallNumber)>,
    queue: VecDeque<Submission>,
    turn: Turn,
    settle: Duration,
}

impl Calls {
    pub(crate) fn new(serialize: bool, settle: Duration) -> Self {
        Self {
            last_id: 0,
            flying: HashMap::new(),
            ids: HashMap::new(),
            deadlines: BTreeSet::new(),
            queue: VecDeque::new(),
            turn: if serialize { Turn::Free } else { Turn::Unneeded },
            settle,
        }
    }

    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Whether a call has to queue now.
    pub(crate) fn must_queue(&self) -> bool {
        !matches!(self.turn, Turn::Unneeded | Turn::Free) || !self.queue.is_empty()
    }

    pub(crate) fn queue(&mut self, submission: Submission) {
        if let Some(patience) = submission.patience {
            self.deadlines.insert((patience.until, submission.state.number));
        }
        self.queue.push_back(submission);
    }

    /// The call whose turn it is, if the turn is free.
    pub(crate) fn next_in_queue(&mut self) -> Option<Submission> {
        if !matches!(self.turn, Turn::Unneeded | Turn::Free) {
            return None;
        }
        let submission = self.queue.pop_front()?;
        self.forget_deadline(submission.patience.map(|patience| patience.until), submission.state.number);
        Some(submission)
    }

    /// Notes that a request was sent.
    pub(crate) fn launch(&mut self, id: u64, flight: Flight, takes_turn: bool) {
        if takes_turn && matches!(self.turn, Turn::Free) {
            self.turn = Turn::Taken(id);
        }
        if let Some(deadline) = flight.deadline {
            self.deadlines.insert((deadline, flight.number));
        }
        self.ids.insert(flight.number, id);
        self.flying.insert(id, flight);
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Flight> {
        self.flying.get(&id)
    }

    /// The server is at work on it: it has its time once more, up to a limit.
    pub(crate) fn extend(&mut self, id: u64, now: Instant) {
        let Some(flight) = self.flying.get_mut(&id) else { return };
        let (Some(old), Origin::Client(waiter, _)) = (flight.deadline, &flight.origin) else { return };
        let new = after(now, waiter.timeout).min(flight.last);
        if new <= old {
            return;
        }
        waiter.state.extend(new);
        flight.deadline = Some(new);
        self.deadlines.remove(&(old, flight.number));
        self.deadlines.insert((new, flight.number));
    }

    /// Takes out the request that was answered. `None` if nobody waits for it any more.
    pub(crate) fn land(&mut self, id: u64) -> Option<Flight> {
        if matches!(self.turn, Turn::Taken(taken) | Turn::Settling { id: taken, .. } if taken == id) {
            self.turn = Turn::Free;
        }
        self.remove(id)
    }

    /// Gives a call up. What is sent already comes back with its id, so the server can be told.
    pub(crate) fn abandon(&mut self, number: CallNumber, now: Instant) -> Abandoned {
        if let Some(id) = self.ids.get(&number).copied() {
            if matches!(self.turn, Turn::Taken(taken) if taken == id) {
                self.turn = Turn::Settling { id, until: after(now, self.settle) };
            }
            return self.remove(id).map_or(Abandoned::Unknown, |flight| Abandoned::Flying(id, flight));
        }
        let Some(place) = self.queue.iter().position(|queued| queued.state.number == number) else {
            return Abandoned::Unknown;
        };
        let Some(queued) = self.queue.remove(place) else { return Abandoned::Unknown };
        self.forget_deadline(queued.patience.map(|patience| patience.until), number);
        Abandoned::Queued(queued)
    }

    /// The calls whose time is over.
    pub(crate) fn overdue(&self, now: Instant) -> Vec<CallNumber> {
        self.deadlines
            .iter()
            .take_while(|(deadline, _)| *deadline <= now)
            .map(|(_, number)| *number)
            .collect()
    }

    /// Ends a turn that has settled.
    pub(crate) fn settle(&mut self, now: Instant) {
        if matches!(self.turn, Turn::Settling { until, .. } if until <= now) {
            self.turn = Turn::Free;
        }
    }

    /// When there is something to do next.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let first = self.deadlines.first().map(|(deadline, _)| *deadline);
        let settled = match self.turn {
            Turn::Settling { until, .. } => Some(until),
            _ => None,
        };
        first.into_iter().chain(settled).min()
    }

    /// Takes everything out: what was sent, and what was not.
    pub(crate) fn drain(&mut self) -> (Vec<Flight>, Vec<Submission>) {
        (self.flying.drain().map(|(_, flight)| flight).collect(), self.queue.drain(..).collect())
    }

    fn remove(&mut self, id: u64) -> Option<Flight> {
        let flight = self.flying.remove(&id)?;
        self.ids.remove(&flight.number);
        self.forget_deadline(flight.deadline, flight.number);
        Some(flight)
    }

    fn forget_deadline(&mut self, deadline: Option<Instant>, number: CallNumber) {
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, number));
        }
    }
}

/// A call that was given up.
#[derive(Debug)]
pub(crate) enum Abandoned {
    Flying(u64, Flight),
    Queued(Submission),
    /// It is over, or has not arrived.
    Unknown,
}
