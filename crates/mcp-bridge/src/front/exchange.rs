//! One request of the newer era: what is said about it, then its answer. Dropping it cancels it.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, Stream, StreamExt as _};
use http::{Response, StatusCode};
use tokio::sync::watch;

use super::Inner;
use super::body::{FrontBody, event};
use super::modern::Place;
use super::observe::Watched;
use super::options::FrontOptions;
use super::peer::Peer;
use super::reply;
use crate::error::CallError;
use crate::json::{Message, RawJson};

pub(super) struct Exchange {
    peer: Arc<Peer>,
    request: RawJson,
    watched: Watched,
    waiting: VecDeque<RawJson>,
    stage: Stage,
    closed: watch::Receiver<bool>,
    #[expect(dead_code, reason = "held, not read")]
    place: Place,
}

enum Stage {
    Open(BoxFuture<'static, Result<RawJson, CallError>>),
    Answered(Option<RawJson>),
    Over,
}

enum Step {
    Said(RawJson),
    /// `None` if there is nothing to answer.
    Answered(Option<RawJson>),
}

impl Exchange {
    pub(super) fn new(inner: &Inner, watched: Watched, peer: Peer, message: Message, place: Place) -> Self {
        let peer = Arc::new(peer);
        let request = message.text;
        let (asked, sent, timeout) = (peer.clone(), request.clone(), inner.options.call_timeout);
        let answer = Box::pin(async move { asked.begin(sent, timeout, |_| ()).await?.answer.await });
        let (waiting, closed) = (VecDeque::new(), inner.closed.subscribe());
        Self { peer, request, watched, waiting, stage: Stage::Open(answer), closed, place }
    }

    /// The answer as JSON if it comes soon and nothing is said before; events otherwise.
    pub(super) async fn response(mut self, options: &FrontOptions) -> Response<FrontBody> {
        match tokio::time::timeout(options.json_grace, self.next()).await {
            Ok(Some(Step::Answered(Some(answer)))) => reply::json(reply::modern_status(&answer), answer),
            Ok(Some(Step::Answered(None)) | None) => reply::empty(StatusCode::ACCEPTED),
            Ok(Some(Step::Said(message))) => {
                self.waiting.push_front(message);
                self.stream(options)
            }
            Err(_) => self.stream(options),
        }
    }

    /// What is said, as it is said, until the front is closed.
    pub(super) fn stream(self, options: &FrontOptions) -> Response<FrontBody> {
        let mut closed = self.closed.clone();
        let closing = async move {
            while !*closed.borrow_and_update() {
                if closed.changed().await.is_err() {
                    return;
                }
            }
        };
        reply::events(self.events().take_until(Box::pin(closing)), options)
    }

    fn events(self) -> impl Stream<Item = Bytes> + Send + 'static {
        stream::unfold(self, |mut exchange| async move {
            let message = match exchange.next().await? {
                Step::Said(message) => message,
                Step::Answered(answer) => answer?,
            };
            Some((event(None, &message), exchange))
        })
    }

    /// What comes next. Nothing is lost if nobody waits for it to the end.
    async fn next(&mut self) -> Option<Step> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(Step::Said(message));
            }
            let said = said(&self.peer);
            let is_news = !said.is_empty();
            self.waiting.extend(said);
            if is_news {
                continue;
            }
            let answer = match &mut self.stage {
                Stage::Over => return None,
                Stage::Answered(answer) => {
                    let answer = answer.take();
                    self.stage = Stage::Over;
                    return Some(Step::Answered(answer));
                }
                Stage::Open(answer) => tokio::select! {
                    biased;
                    () = self.peer.news() => continue,
                    answer = answer => answer,
                },
            };
            self.watched.over(&answer);
            let answer = answer.map_or_else(|error| error.answer_to(&self.request), Some);
            // What was said before the answer comes before it: one more look.
            self.stage = Stage::Answered(answer);
        }
    }
}

/// What is said about the request. A server asks nothing in this era, and what is about no request
/// goes to who listens.
fn said(peer: &Peer) -> Vec<RawJson> {
    let arrived = peer.drain().into_iter();
    arrived
        .filter(|arrived| arrived.about.is_some() && !arrived.asks)
        .map(|arrived| arrived.message)
        .collect()
}
