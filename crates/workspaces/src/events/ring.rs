//! The last events, in order.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Event, Published};

pub(super) struct Ring {
    events: VecDeque<Arc<Published>>,
    /// The id of the newest; before the first one, what comes before it.
    newest: u64,
    most: usize,
}

/// What comes after an event.
pub(super) enum After {
    /// This one.
    Event(Arc<Published>),
    /// Nothing yet.
    Nothing,
    /// What came next is not kept any more; this is the last one that is gone.
    Gone(u64),
}

impl Ring {
    pub(super) fn new(newest: u64, most: usize) -> Self {
        Self { events: VecDeque::with_capacity(most), newest, most }
    }

    pub(super) fn push(&mut self, event: Event) -> u64 {
        if self.events.len() == self.most {
            self.events.pop_front();
        }
        self.newest += 1;
        let published = Published { id: self.newest, at: emergent_store::now(), event };
        self.events.push_back(Arc::new(published));
        self.newest
    }

    /// The id before the oldest one that is kept.
    pub(super) fn before_oldest(&self) -> u64 {
        self.newest - self.events.len() as u64
    }

    /// What comes after the event of this id. Nobody has seen one that is yet to come: such an id is
    /// another server's, and what came after it is gone.
    pub(super) fn after(&self, id: u64) -> After {
        let before_oldest = self.before_oldest();
        if id < before_oldest || id > self.newest {
            return After::Gone(before_oldest);
        }
        let place = usize::try_from(id - before_oldest).unwrap_or(usize::MAX);
        self.events.get(place).map_or(After::Nothing, |event| After::Event(Arc::clone(event)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Subject;
    use super::*;

    fn ring(events: u64) -> Ring {
        let mut ring = Ring::new(100, 3);
        for number in 0..events {
            let event = Event { kind: "test", about: Subject::Installation, data: json!({ "n": number }) };
            assert_eq!(ring.push(event), 101 + number);
        }
        ring
    }

    fn after(ring: &Ring, id: u64) -> Result<Option<u64>, u64> {
        match ring.after(id) {
            After::Event(event) => Ok(Some(event.id)),
            After::Nothing => Ok(None),
            After::Gone(last) => Err(last),
        }
    }

    #[test]
    fn what_is_kept_is_found_and_what_is_gone_is_said() {
        let empty = ring(0);
        assert_eq!([after(&empty, 100), after(&empty, 99)], [Ok(None), Err(100)]);
        let full = ring(3);
        assert_eq!(
            [after(&full, 100), after(&full, 102), after(&full, 103)],
            [Ok(Some(101)), Ok(Some(103)), Ok(None)]
        );
        let overwritten = ring(5);
        assert_eq!([after(&overwritten, 101), after(&overwritten, 102)], [Err(102), Ok(Some(103))]);
        assert_eq!([after(&overwritten, 0), after(&overwritten, u64::MAX)], [Err(102), Err(102)]);
        assert_eq!(after(&overwritten, 105), Ok(None));
    }
}
