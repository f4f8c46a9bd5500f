//! A session of the older era.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::connector::Principal;
use super::options::FrontOptions;
use super::peer::{Arrived, Peer, Tag};
use super::stream::EventLog;
use crate::handshake::local_error;
use crate::json::{Kind, Message};
use crate::session::lock;

/// The stream of the GET, for what belongs to no call.
pub(super) const STANDALONE: u64 = 0;

pub(super) struct ClientSession {
    pub(super) id: String,
    pub(super) principal: Principal,
    pub(super) version: &'static str,
    pub(super) peer: Peer,
    options: Arc<FrontOptions>,
    standalone: Arc<EventLog>,
    state: Mutex<State>,
    /// Held while messages are moved to their streams, so that an answer is never ahead of what
    /// was said before it.
    moving: Mutex<()>,
    ended: watch::Sender<bool>,
}

struct State {
    /// Streams of calls: open ones, and those that are over and kept.
    streams: BTreeMap<u64, Arc<EventLog>>,
    open: Vec<u64>,
    /// Since when.
    kept: VecDeque<(u64, Instant)>,
    calls: BTreeMap<Tag, u64>,
    last_stream: u64,
    last_seen: Instant,
    /// Whether the client said anything after its `initialize`.
    spoke: bool,
}

impl ClientSession {
    pub(super) fn start(
        principal: Principal,
        version: &'static str,
        peer: Peer,
        options: &Arc<FrontOptions>,
    ) -> Arc<Self> {
        let session = Arc::new(Self {
            // Unguessable, and of visible characters.
            id: uuid::Uuid::new_v4().simple().to_string(),
            principal,
            version,
            peer,
            options: options.clone(),
            standalone: EventLog::new(STANDALONE, options),
            state: Mutex::new(State {
                streams: BTreeMap::new(),
                open: Vec::new(),
                kept: VecDeque::new(),
                calls: BTreeMap::new(),
                last_stream: STANDALONE,
                last_seen: Instant::now(),
                spoke: false,
            }),
            moving: Mutex::default(),
            ended: watch::Sender::new(false),
        });
        tokio::spawn(session.clone().pump());
        session
    }

    /// Moves what arrives until the session ends.
    async fn pump(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.ended() => return,
                () = self.peer.news() => self.move_arrived().await,
            }
        }
    }

    /// Moves what arrived to its streams. What a client misses that the server waits for is
    /// answered for it.
    pub(super) async fn move_arrived(&self) {
        for id in self.move_now() {
            let answer = local_error(&id, -32603, "the client does not keep up");
            if let Err(error) = self.peer.respond(answer).await {
                tracing::debug!(%error, "the server could not be told that its client does not keep up");
            }
        }
    }

    fn move_now(&self) -> Vec<String> {
        let _one_at_a_time = lock(&self.moving);
        let mut lost = Vec::new();
        for arrived in self.peer.drain() {
            let message = Message::read(arrived.message.clone()).ok();
            let asks = message.as_ref().filter(|_| arrived.asks).and_then(|message| match &message.kind {
                Kind::Request { id, .. } => Some(message.at(id).to_owned()),
                _ => None,
            });
            match self.stream_for(&arrived, message.as_ref()) {
                Some(stream) => lost.extend(stream.push(arrived.message, asks)),
                // Its call is over.
                None => lost.extend(asks),
            }
        }
        lost
    }

    fn stream_for(&self, arrived: &Arrived, message: Option<&Message>) -> Option<Arc<EventLog>> {
        let state = lock(&self.state);
        if let Some(tag) = arrived.about {
            return state.calls.get(&tag).and_then(|stream| state.streams.get(stream)).cloned();
        }
        let is_change = message.is_some_and(|message| match &message.kind {
            Kind::Notification { method, .. } => {
                method.ends_with("/list_changed") || method == "notifications/resources/updated"
            }
            _ => false,
        });
        // Whatever else a server says on its own is most likely about what it is doing.
        let newest = state.open.last().filter(|_| !is_change).and_then(|stream| state.streams.get(stream));
        Some(newest.unwrap_or(&self.standalone).clone())
    }

    /// A new stream for a call; `None` if there are too many.
    pub(super) fn open_stream(&self) -> Option<Arc<EventLog>> {
        let mut state = lock(&self.state);
        if state.open.len() >= self.options.max_open {
            return None;
        }
        state.last_stream += 1;
        let log = EventLog::new(state.last_stream, &self.options);
        state.open.push(log.number);
        state.streams.insert(log.number, log.clone());
        Some(log)
    }

    /// Notes what belongs on a stream.
    pub(super) fn assign(&self, call: Tag, stream: u64) {
        lock(&self.state).calls.insert(call, stream);
    }

    /// A stream is over. It is kept for a client that lost it.
    pub(super) fn close_stream(&self, log: &EventLog) {
        let mut state = lock(&self.state);
        state.open.retain(|open| *open != log.number);
        state.calls.retain(|_, stream| *stream != log.number);
        state.last_seen = Instant::now();
        if !state.streams.contains_key(&log.number) {
            return;
        }
        state.kept.push_back((log.number, Instant::now()));
        let bytes = |state: &State| -> usize {
            state.kept.iter().filter_map(|(kept, _)| state.streams.get(kept)).map(|log| log.bytes()).sum()
        };
        while state.kept.len() > self.options.max_replay_streams
            || bytes(&state) > self.options.max_replay_bytes
        {
            let Some((oldest, _)) = state.kept.pop_front() else { break };
            state.streams.remove(&oldest);
        }
    }

    /// Forgets streams that nobody came back for.
    pub(super) fn forget_old(&self) {
        let mut state = lock(&self.state);
        while let Some((oldest, since)) = state.kept.front().copied()
            && since.elapsed() >= self.options.replay_ttl
        {
            state.kept.pop_front();
            state.streams.remove(&oldest);
        }
    }

    /// A stream whose answer was sent otherwise.
    pub(super) fn forget_stream(&self, number: u64) {
        let mut state = lock(&self.state);
        state.streams.remove(&number);
        state.kept.retain(|(kept, _)| *kept != number);
    }

    /// The stream of a call, if it is still there, or the standalone one.
    pub(super) fn stream(&self, number: u64) -> Option<Arc<EventLog>> {
        if number == STANDALONE {
            return Some(self.standalone.clone());
        }
        lock(&self.state).streams.get(&number).cloned()
    }

    /// Notes that the client is there.
    pub(super) fn touch(&self) {
        let mut state = lock(&self.state);
        state.last_seen = Instant::now();
        state.spoke = true;
    }

    /// For how long nothing happened; `None` while a call is open.
    pub(super) fn idle(&self) -> Option<Duration> {
        let state = lock(&self.state);
        state.open.is_empty().then(|| state.last_seen.elapsed())
    }

    pub(super) fn is_expired(&self) -> bool {
        let spoke = lock(&self.state).spoke;
        let most = if spoke { self.options.idle_ttl } else { self.options.pre_init_ttl };
        self.peer.is_over() || self.idle().is_some_and(|idle| idle >= most)
    }

    /// Ends when the session does.
    pub(super) async fn ended(&self) {
        let mut ended = self.ended.subscribe();
        while !*ended.borrow_and_update() {
            if ended.changed().await.is_err() {
                return;
            }
        }
    }

    /// Ends the session: its streams, its calls and, when the last of them is gone, its process.
    pub(super) fn end(&self) {
        self.ended.send_replace(true);
        self.standalone.close();
        for log in std::mem::take(&mut lock(&self.state).streams).into_values() {
            log.close();
        }
    }
}
