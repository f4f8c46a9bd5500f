//! What waits for a client to take it.
//!
//! The one reader of a server must never wait for a client, so a full mailbox turns messages
//! away. That is harmless for progress. That something changed must not be lost, but once is
//! enough: such a message replaces the one of its kind that still waits, so there are never more
//! than there are things to change.

use std::collections::VecDeque;
use std::sync::Mutex;

use tokio::sync::Notify;

use crate::RawJson;
use crate::session::{CallNumber, lock};

/// A change message longer than this may be turned away like any other.
const LARGE: usize = 16 * 1024;

/// A message for a client that is not the answer to its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A notification.
    Notification {
        /// The call it belongs to: progress, and whatever a listen request listens to.
        about: Option<CallNumber>,
        /// The message.
        message: RawJson,
    },
    /// A request that the client answers with [`Client::respond`](crate::Client::respond).
    Request {
        /// The call that made the server ask, where that is known.
        about: Option<CallNumber>,
        /// The message.
        message: RawJson,
    },
}

impl Incoming {
    fn size(&self) -> usize {
        let (Self::Notification { message, .. } | Self::Request { message, .. }) = self;
        message.as_str().len()
    }
}

/// A bounded queue with one writer that never waits.
#[derive(Debug)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    news: Notify,
    most: usize,
    most_bytes: usize,
    /// A server may tell of changes of more things than anybody named.
    most_changes: usize,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<(Incoming, Option<String>)>,
    /// Of the queue, what is not a change.
    plain: usize,
    plain_bytes: usize,
    closed: bool,
}

impl State {
    fn take(&mut self) -> Option<Incoming> {
        let (incoming, change) = self.queue.pop_front()?;
        if change.is_none() {
            self.plain -= 1;
            self.plain_bytes -= incoming.size();
        }
        Some(incoming)
    }
}

impl Mailbox {
    pub(crate) fn new(most: usize, most_bytes: usize, most_changes: usize) -> Self {
        Self { state: Mutex::default(), news: Notify::new(), most, most_bytes, most_changes }
    }

    /// Puts a message in; `false` if there is no room or nobody to read it.
    pub(crate) fn push(&self, incoming: Incoming) -> bool {
        let mut state = lock(&self.state);
        let size = incoming.size();
        if state.closed
            || state.plain >= self.most
            || (state.plain > 0 && state.plain_bytes + size > self.most_bytes)
        {
            return false;
        }
        state.plain += 1;
        state.plain_bytes += size;
        state.queue.push_back((incoming, None));
        drop(state);
        self.news.notify_one();
        true
    }

    /// Puts the news of a change in, in place of news of the same thing.
    pub(crate) fn push_change(&self, incoming: Incoming, what: String) -> bool {
        if incoming.size() > LARGE {
            return self.push(incoming);
        }
        let mut state = lock(&self.state);
        if state.closed {
            return false;
        }
        let changes = state.queue.len() - state.plain;
        match state.queue.iter_mut().find(|(_, kept)| kept.as_ref() == Some(&what)) {
            Some((old, _)) => *old = incoming,
            None if changes >= self.most_changes => return false,
            None => state.queue.push_back((incoming, Some(what))),
        }
        drop(state);
        self.news.notify_one();
        true
    }

    /// The next message; `None` once the mailbox is closed.
    pub(crate) async fn next(&self) -> Option<Incoming> {
        loop {
            let news = self.news.notified();
            {
                let mut state = lock(&self.state);
                if let Some(incoming) = state.take() {
                    return Some(incoming);
                }
                if state.closed {
                    return None;
                }
            }
            news.await;
        }
    }

    /// The next message that is there already.
    pub(crate) fn take(&self) -> Option<Incoming> {
        lock(&self.state).take()
    }

    /// Waits until there is a message, or until there will be none any more.
    pub(crate) async fn news(&self) {
        loop {
            let news = self.news.notified();
            {
                let state = lock(&self.state);
                if state.closed || !state.queue.is_empty() {
                    return;
                }
            }
            news.await;
        }
    }

    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        // One stored permit would wake one reader; a stream that was made twice has two.
        self.news.notify_waiters();
        self.news.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(text: &str) -> Incoming {
        Incoming::Notification { about: None, message: RawJson::known(text.to_owned()) }
    }

    #[tokio::test]
    async fn a_full_mailbox_loses_progress_and_no_change() {
        let mailbox = Mailbox::new(2, 1000, 1);
        assert!(mailbox.push(note("1")) && mailbox.push(note("2")));
        assert!(!mailbox.push(note("3")));
        for text in ["old", "new"] {
            assert!(mailbox.push_change(note(text), "tools".into()));
        }
        assert!(!mailbox.push_change(note("more"), "prompts".into()), "changes are bounded");
        mailbox.close();
        let mut got = Vec::new();
        while let Some(incoming) = mailbox.next().await {
            got.push(incoming);
        }
        assert_eq!(got, [note("1"), note("2"), note("new")]);
        assert!(!mailbox.push(note("4")), "closed");
    }

    #[test]
    fn bytes_are_bounded_too() {
        let mailbox = Mailbox::new(100, 10, 1);
        assert!(mailbox.push(note("a message of its own")), "one is always let in");
        assert!(!mailbox.push(note("x")));
    }
}
