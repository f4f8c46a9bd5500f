//! A place among the events.

use std::sync::Arc;

use tokio::sync::watch;

use super::ring::After;
use super::{Events, Published};

/// A place among the events. Holds nothing back: what it has not taken yet may be gone when it comes.
pub struct Subscription {
    events: Events,
    after: u64,
    newest: watch::Receiver<u64>,
}

/// What a subscriber hears.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// Something happened.
    Event(Arc<Published>),
    /// Events are gone that came before this could take them.
    Lost {
        /// The last of them; what follows has a greater id.
        last: u64,
    },
}

impl Subscription {
    pub(super) fn new(events: Events, after: u64, newest: watch::Receiver<u64>) -> Self {
        Self { events, after, newest }
    }

    /// What there is already; `None` when that was all.
    pub fn take(&mut self) -> Option<Heard> {
        let next = self.events.ring().after(self.after);
        match next {
            After::Event(event) => {
                self.after = event.id;
                Some(Heard::Event(event))
            }
            After::Gone(last) => {
                self.after = last;
                Some(Heard::Lost { last })
            }
            After::Nothing => None,
        }
    }

    /// The next one, whenever it comes. Cancelled, it has taken nothing.
    pub async fn next(&mut self) -> Heard {
        loop {
            self.newest.mark_unchanged();
            if let Some(heard) = self.take() {
                return heard;
            }
            // This holds the sender itself, so there is always one.
            if self.newest.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Event, KEPT, Subject};
    use super::*;

    fn events() -> Events {
        Events::new(emergent_store::now())
    }

    fn publish(events: &Events, number: usize) {
        let data = json!({ "n": number });
        events.publish(Event { kind: "test", about: Subject::Installation, data });
    }

    fn number(heard: Heard) -> Option<u64> {
        match heard {
            Heard::Event(event) => event.event.data["n"].as_u64(),
            Heard::Lost { .. } => None,
        }
    }

    #[tokio::test]
    async fn everybody_hears_everything_in_order() {
        let events = events();
        let (mut first, mut second) = (events.subscribe(None), events.subscribe(None));
        let publishing = {
            let events = events.clone();
            tokio::spawn(async move {
                for number in 0..500 {
                    publish(&events, number);
                    tokio::task::yield_now().await;
                }
            })
        };
        for expect in 0..500 {
            assert_eq!(number(first.next().await), Some(expect));
            assert_eq!(number(second.next().await), Some(expect));
        }
        publishing.await.unwrap();
        assert_eq!((first.take(), second.take()), (None, None));
    }

    #[tokio::test]
    async fn who_is_too_slow_is_told_and_stops_nobody() {
        let events = events();
        let begin = events.newest();
        let mut slow = events.subscribe(None);
        for count in 0..KEPT + 10 {
            publish(&events, count);
        }
        assert_eq!(slow.next().await, Heard::Lost { last: begin + 10 });
        assert_eq!(number(slow.next().await), Some(10));
        let mut from_the_past = events.subscribe(Some(0));
        assert_eq!(from_the_past.take(), Some(Heard::Lost { last: begin + 10 }));
        assert_eq!(from_the_past.take().and_then(number), Some(10));
    }
}
