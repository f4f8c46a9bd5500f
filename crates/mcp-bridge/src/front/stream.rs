//! The events of one stream of the older era: those that wait for a reader, and those that one
//! may have lost.
//!
//! A stream has one reader at a time; a second one takes over. Whoever writes never waits.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream};
use tokio::sync::Notify;

use super::body::{event, primer};
use super::options::FrontOptions;
use crate::RawJson;
use crate::session::lock;

/// A stream of events.
#[derive(Debug)]
pub(super) struct EventLog {
    /// Unique in its session.
    pub(super) number: u64,
    most_events: usize,
    most_bytes: usize,
    state: Mutex<State>,
    news: Notify,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Event>,
    /// The last number given out. The first event is 1, so that there is an id before it.
    last: u64,
    /// Up to which event some reader got them.
    taken: u64,
    bytes: usize,
    closed: bool,
    /// How many readers there were; the newest one reads.
    readers: u64,
}

#[derive(Debug)]
struct Event {
    number: u64,
    message: RawJson,
    asks: Option<String>,
}

/// What a stream came to in its first moments.
#[derive(Debug)]
pub(super) enum Start {
    /// One answer and nothing else.
    Answer(RawJson),
    /// Nothing: the call was taken back.
    Nothing,
    /// Something that needs a stream.
    Stream,
}

impl EventLog {
    pub(super) fn new(number: u64, options: &FrontOptions) -> Arc<Self> {
        Arc::new(Self {
            number,
            most_events: options.max_stream_events.max(1),
            most_bytes: options.max_stream_bytes,
            state: Mutex::default(),
            news: Notify::new(),
        })
    }

    /// Adds a message; `asks` is its id if it is a request. Gives back the ids of requests that had
    /// to go before anybody read them.
    pub(super) fn push(&self, message: RawJson, asks: Option<String>) -> Vec<String> {
        let mut state = lock(&self.state);
        if state.closed {
            return asks.into_iter().collect();
        }
        state.last += 1;
        state.bytes += message.as_str().len();
        let number = state.last;
        state.events.push_back(Event { number, message, asks });
        let mut lost = Vec::new();
        while state.events.len() > 1
            && (state.events.len() > self.most_events || state.bytes > self.most_bytes)
        {
            let Some(oldest) = state.events.pop_front() else { break };
            state.bytes -= oldest.message.as_str().len();
            if oldest.number > state.taken {
                lost.extend(oldest.asks);
            }
        }
        drop(state);
        self.news.notify_waiters();
        lost
    }

    /// Adds what is there to add, and says that nothing follows.
    pub(super) fn finish(&self, answer: Option<RawJson>) {
        if let Some(answer) = answer {
            self.push(answer, None);
        }
        self.close();
    }

    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.news.notify_waiters();
    }

    /// How many bytes are kept.
    pub(super) fn bytes(&self) -> usize {
        lock(&self.state).bytes
    }

    /// Waits for so long whether there is more to this stream than an answer.
    pub(super) async fn start(&self, grace: Duration) -> Start {
        let settled = async {
            loop {
                let mut news = pin!(self.news.notified());
                news.as_mut().enable();
                {
                    let state = lock(&self.state);
                    match (state.closed, state.events.front()) {
                        (true, None) => return Start::Nothing,
                        (true, Some(event)) if state.last == 1 => {
                            return Start::Answer(event.message.clone());
                        }
                        (true, Some(_)) => return Start::Stream,
                        // The end may be one step behind its answer; what else is there is no answer.
                        (false, Some(event)) if !is_answer(&event.message) => return Start::Stream,
                        (false, _) => {}
                    }
                }
                news.await;
            }
        };
        tokio::time::timeout(grace, settled).await.unwrap_or(Start::Stream)
    }

    /// Reads from the event after this one on, or where the last reader stopped. The reader before
    /// this one ends.
    pub(super) fn read(
        self: &Arc<Self>,
        after: Option<u64>,
        primed: bool,
    ) -> impl Stream<Item = Bytes> + Send + 'static + use<> {
        let mut state = lock(&self.state);
        state.readers += 1;
        let after = after.unwrap_or(state.taken);
        let reader = Reader {
            log: self.clone(),
            place: state.readers,
            after,
            primer: primed.then(|| primer(&self.id(after))),
        };
        drop(state);
        self.news.notify_waiters();
        stream::unfold(reader, |mut reader| async move {
            let bytes = reader.next().await?;
            Some((bytes, reader))
        })
    }

    fn id(&self, event: u64) -> String {
        format!("{}-{event}", self.number)
    }
}

/// Stream and event of an id.
pub(super) fn parse_id(id: &str) -> Option<(u64, u64)> {
    let (stream, event) = id.split_once('-')?;
    Some((stream.parse().ok()?, event.parse().ok()?))
}

fn is_answer(message: &RawJson) -> bool {
    crate::json::pick(message.as_str(), ["method"]).is_ok_and(|[method]| method.is_none())
}

struct Reader {
    log: Arc<EventLog>,
    place: u64,
    after: u64,
    primer: Option<Bytes>,
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(primer) = self.primer.take() {
            return Some(primer);
        }
        loop {
            let mut news = pin!(self.log.news.notified());
            news.as_mut().enable();
            {
                let mut state = lock(&self.log.state);
                if state.readers != self.place {
                    return None;
                }
                let place = state.events.partition_point(|event| event.number <= self.after);
                if let Some(found) = state.events.get(place) {
                    self.after = found.number;
                    let bytes = event(Some(&self.log.id(found.number)), &found.message);
                    state.taken = state.taken.max(self.after);
                    return Some(bytes);
                }
                if state.closed {
                    return None;
                }
            }
            news.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;

    fn log(most_events: usize) -> Arc<EventLog> {
        let options = FrontOptions { max_stream_events: most_events, ..FrontOptions::default() };
        EventLog::new(7, &options)
    }

    fn note(n: usize) -> RawJson {
        RawJson::known(format!(r#"{{"method":"n","n":{n}}}"#))
    }

    #[tokio::test]
    async fn a_reader_that_comes_back_gets_what_it_lost_and_nothing_else() {
        let log = log(10);
        for n in 1..=3 {
            log.push(note(n), None);
        }
        let first: Vec<_> = Box::pin(log.read(None, true)).take(3).collect().await;
        assert!(first[0].starts_with(b"id: 7-0\n") && first[2].starts_with(b"id: 7-2\n"));
        log.finish(None);
        let again: Vec<_> = log.read(Some(1), false).collect().await;
        assert_eq!(again.len(), 2);
        assert!(again[0].starts_with(b"id: 7-2\n"));
        assert_eq!(parse_id("7-2"), Some((7, 2)));
        assert_eq!(parse_id("7"), None);
    }

    #[tokio::test]
    async fn a_second_reader_ends_the_first() {
        let log = log(10);
        let mut first = Box::pin(log.read(None, false));
        let mut second = Box::pin(log.read(None, false));
        assert!(first.next().await.is_none());
        log.push(note(1), None);
        assert!(second.next().await.is_some());
    }

    #[test]
    fn the_oldest_goes_and_what_it_asked_is_known() {
        let log = log(2);
        assert!(log.push(note(1), Some("9".into())).is_empty());
        assert!(log.push(note(2), None).is_empty());
        assert_eq!(log.push(note(3), None), ["9"]);
        log.close();
        assert_eq!(log.push(note(4), Some("10".into())), ["10"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_alone_needs_no_stream() {
        let answer = RawJson::known(r#"{"id":1,"result":{}}"#.into());
        let alone = log(10);
        alone.finish(Some(answer.clone()));
        assert!(matches!(alone.start(Duration::from_secs(1)).await, Start::Answer(_)));
        let nothing = log(10);
        nothing.finish(None);
        assert!(matches!(nothing.start(Duration::from_secs(1)).await, Start::Nothing));
        let slow = log(10);
        assert!(matches!(slow.start(Duration::from_secs(1)).await, Start::Stream));
        let talkative = log(10);
        talkative.push(note(1), None);
        assert!(matches!(talkative.start(Duration::from_secs(1)).await, Start::Stream));
    }
}
