//! What happens, for whoever wants to follow it.
//!
//! ```text
//!   publish ─► ring of the last 1,000 ◄── each subscriber has a place in it, and nothing else
//! ```
//!
//! Nobody who publishes waits for anybody, and no subscriber has a queue of its own: one that is so slow
//! that its place has been overwritten is told so.

mod changes;
mod ring;
mod subscription;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use emergent_store::TokenId;
use emergent_types::WorkspaceId;
use serde_json::Value;
use time::OffsetDateTime;
use tokio::sync::watch;

use crate::Handle;

pub(crate) use changes::{of_change, of_end, of_pool, of_progress, of_snapshot};
use ring::Ring;
pub use subscription::{Heard, Subscription};

/// How many events are kept.
pub(crate) const KEPT: usize = 1000;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// What kind of thing, as `subject.what`, such as `workspace.state`.
    pub kind: &'static str,
    /// What it is about, and so who may hear of it.
    pub about: Subject,
    /// The rest; an object.
    pub data: Value,
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The installation as a whole: only for those who look after it.
    Installation,
    /// A workspace: for whoever may see it.
    Workspace {
        /// Which.
        id: WorkspaceId,
        /// Whose it is.
        owner: Option<TokenId>,
    },
}

/// An event with its place among all others.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Grows from event to event, over restarts as well.
    pub id: u64,
    /// When.
    pub at: OffsetDateTime,
    /// What.
    pub event: Event,
}

/// The events of this installation. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    shared: Arc<Shared>,
}

struct Shared {
    ring: Mutex<Ring>,
    /// The newest id: wakes those who wait.
    newest: watch::Sender<u64>,
}

impl Events {
    /// A ring without events. Ids begin with the time in microseconds, so that they are greater than those
    /// of the server before, and whoever asks for what came after one of those is told that it is gone.
    pub(crate) fn new(now: OffsetDateTime) -> Self {
        let micros = u64::try_from(now.unix_timestamp_nanos() / 1000).unwrap_or(0);
        let newest = watch::Sender::new(micros);
        Self { shared: Arc::new(Shared { ring: Mutex::new(Ring::new(micros, KEPT)), newest }) }
    }

    /// Tells everybody who may hear of it. Never waits.
    pub fn publish(&self, event: Event) {
        let mut ring = self.ring();
        let id = ring.push(event);
        // While the ring is held, so that nobody hears of a newer one first.
        self.shared.newest.send_replace(id);
    }

    /// The id of the newest event. What comes later has a greater one.
    pub fn newest(&self) -> u64 {
        *self.shared.newest.borrow()
    }

    /// The id before the oldest event that is kept: whoever begins there misses none of them.
    pub fn before_oldest(&self) -> u64 {
        self.ring().before_oldest()
    }

    /// What comes after the event of this id; from now on where there is none.
    pub fn subscribe(&self, after: Option<u64>) -> Subscription {
        let after = after.unwrap_or_else(|| self.newest());
        Subscription::new(self.clone(), after, self.shared.newest.subscribe())
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.shared.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    /// What happens here.
    pub fn events(&self) -> &Events {
        &self.context().events
    }
}
