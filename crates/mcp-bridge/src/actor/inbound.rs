use tokio::time::Instant;

use super::Actor;
use super::calls::{Effect, Origin, Own, Waiter};
use super::interest::{Holder, Listen};
use crate::command::Frame;
use crate::era::{Era, SUBSCRIPTION_KEY};
use crate::error::CallError;
use crate::handshake::{local_error, reply_locally};
use crate::json::{
    Entry, IdKey, Kind, Message, Outcome, RawJson, Splice, meta_member, set_meta, span_of, text_of,
};
use crate::mailbox::Incoming;
use crate::options::Mode;
use crate::session::{Asked, CallNumber, cancelled_notice};

impl Actor {
    pub(super) fn hear(&mut self, message: Message) {
        match &message.kind {
            Kind::Response { id, outcome } => {
                let id = IdKey::of(message.at(id)).and_then(|key| key.as_own());
                let failed = matches!(outcome, Outcome::Error(_));
                self.hear_answer(id, failed, &message);
            }
            Kind::Request { .. } => self.hear_request(&message),
            Kind::Notification { method, .. } => self.hear_notification(method.clone().as_str(), &message),
        }
    }

    fn hear_answer(&mut self, id: Option<u64>, failed: bool, message: &Message) {
        let flight = id.and_then(|id| self.calls.land(id).map(|flight| (id, flight)));
        let Some((id, flight)) = flight else {
            // Given up, cancelled, or never asked. It is nobody's, whoever waits meanwhile.
            self.hub.counters.late_answers.add();
            return;
        };
        match flight.origin {
            Origin::Client(waiter, effect) => {
                match effect {
                    Effect::Subscribed(_) if failed => self.undo(&waiter, effect),
                    Effect::Subscribed(uri) => {
                        if let Some(session) = &waiter.session {
                            self.carried.interest.grant(&uri, Holder::Client(session.id));
                        }
                        self.subscribed(&uri);
                    }
                    Effect::None => {}
                }
                let Kind::Response { id, .. } = &message.kind else { return };
                let text = message.with([(id.clone(), waiter.id)]);
                if waiter.answer.send(Ok(text)).is_err() {
                    self.hub.counters.late_answers.add();
                }
            }
            Origin::Own(Own::Subscribe(uri)) if !failed => self.subscribed(&uri),
            Origin::Own(Own::Listen) => self.listening_ended(id),
            Origin::Own(own) => {
                if failed {
                    tracing::warn!(?own, "the MCP server refused what the bridge asked of it");
                }
            }
        }
    }

    fn subscribed(&mut self, uri: &str) {
        // Whoever wanted it may have left while it was on its way.
        if !self.carried.interest.applied(uri) {
            self.send_unsubscribe(uri);
        }
    }

    /// An answer was too long to keep, but it was somebody's.
    pub(super) fn hear_too_long(&mut self, id: u64) {
        if let Some(flight) = self.calls.land(id)
            && let Origin::Client(waiter, effect) = flight.origin
        {
            self.undo(&waiter, effect);
            let limit = self.hub.options.max_line_bytes;
            let _gone = waiter.answer.send(Err(CallError::AnswerTooLong { limit }));
        }
    }

    fn hear_request(&mut self, message: &Message) {
        let Kind::Request { id, method, .. } = &message.kind else { return };
        if self.server.era == Era::Modern {
            // A server of the newer era must not ask, and must not be answered.
            self.hub.counters.refused_requests.add();
            return;
        }
        let client = match self.hub.options.mode {
            Mode::Dedicated(_) if method != "ping" => self.hub.sessions().into_iter().next(),
            _ => None,
        };
        let Some(session) = client else {
            if method != "ping" {
                self.hub.counters.refused_requests.add();
            }
            return self.reply(reply_locally(message));
        };
        let server_id = message.at(id).to_owned();
        let asked = session.ask(Asked::Server { epoch: self.carried.epoch, id: server_id.clone() });
        let passed = asked.is_some_and(|asked| {
            let message = message.with([(id.clone(), asked.to_string())]);
            let passed = session.mailbox.push(Incoming::Request { about: None, message });
            if !passed {
                session.answered(asked);
            }
            passed
        });
        if !passed {
            self.hub.counters.refused_requests.add();
            self.reply(Some(local_error(&server_id, -32603, "the client does not keep up")));
        }
    }

    /// Replies to the server, unless it does not read its replies.
    pub(super) fn reply(&mut self, reply: Option<RawJson>) {
        let Some(text) = reply else { return };
        match self.replies.clone().try_acquire_owned() {
            Ok(space) => self.link.send(Frame { text, space: Some(space) }),
            Err(_) => self.hub.counters.refused_requests.add(),
        }
    }

    fn hear_notification(&mut self, method: &str, message: &Message) {
        let subscription = meta_member(message, SUBSCRIPTION_KEY).ok().flatten();
        let subscription = subscription.and_then(|span| IdKey::of(message.at(&span)));
        if let Some(subscription) = &subscription
            && self.server.era == Era::Modern
        {
            if method == "notifications/subscriptions/acknowledged" {
                return self.listening_acknowledged(subscription);
            }
            if !self.listening.hears(subscription) {
                self.hub.counters.unrouted.add();
                return;
            }
        }
        match method {
            "notifications/progress" => self.hear_progress(message),
            "notifications/resources/updated" => self.hear_update(message),
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => self.announce(&message.text),
            _ if !self.hub.options.is_shared() => self.pass_on(method, message),
            "notifications/message" => {
                // Nothing says whose request it is about, and other clients must not read it.
                if let Some(log) = &self.hub.options.log
                    && log.try_send(message.text.clone()).is_err()
                {
                    self.hub.counters.missed.add();
                }
            }
            _ => self.hub.counters.unrouted.add(),
        }
    }

    fn hear_progress(&mut self, message: &Message) {
        let token = message.param("progressToken");
        let id = token.and_then(|token| IdKey::of(token)?.as_own());
        if let Some(id) = id {
            self.calls.extend(id, Instant::now());
        }
        let flight = id.and_then(|id| self.calls.get(id));
        let known = flight.and_then(|flight| match &flight.origin {
            Origin::Client(Waiter { session: Some(session), token: Some(own), .. }, _) => {
                Some((flight.number, session, own))
            }
            _ => None,
        });
        let (Some((number, session, own)), Some(token)) = (known, token) else {
            self.hub.counters.unrouted.add();
            return;
        };
        let text = message.with([(span_of(message.text.as_str(), token), own.clone())]);
        let incoming = Incoming::Notification { about: Some(number), message: text };
        self.count_missed(session.mailbox.push(incoming));
    }

    fn hear_update(&mut self, message: &Message) {
        let Some(uri) = message.param("uri").and_then(text_of) else {
            self.hub.counters.unrouted.add();
            return;
        };
        let holders = self.carried.interest.holders(&uri);
        if holders.is_empty() {
            self.hub.counters.unrouted.add();
        }
        for holder in holders {
            let what = format!("updated {uri}");
            match holder {
                Holder::Client(client) => {
                    if let Some(session) = self.hub.session(client) {
                        let incoming = Incoming::Notification { about: None, message: message.text.clone() };
                        self.count_missed(session.mailbox.push_change(incoming, what));
                    }
                }
                Holder::Listen(number) => {
                    if let Some(listen) = self.carried.interest.listen_of(number) {
                        self.tell_listener(number, listen, message, what);
                    }
                }
            }
        }
    }

    /// Passes a change on under the id of the listen request that asked for it.
    pub(super) fn tell_listener(&self, number: CallNumber, listen: &Listen, message: &Message, what: String) {
        let mut splice = Splice::new(message.text.as_str());
        let tag = Entry { key: SUBSCRIPTION_KEY, value: listen.waiter.id.clone(), overwrite: true };
        if set_meta(&mut splice, message, &[tag]).is_err() {
            self.hub.counters.unrouted.add();
            return;
        }
        let incoming = Incoming::Notification { about: Some(number), message: splice.finish() };
        self.count_missed(listen.session.mailbox.push_change(incoming, format!("{what} {number:?}")));
    }

    /// Whatever else a server says to its one client.
    fn pass_on(&mut self, method: &str, message: &Message) {
        let Some(session) = self.hub.sessions().into_iter().next() else {
            self.hub.counters.unrouted.add();
            return;
        };
        let mut text = message.text.clone();
        if method == "notifications/cancelled" {
            let asked = message.param("requestId").and_then(|id| session.take_back(&IdKey::of(id)?));
            let Some(asked) = asked else {
                self.hub.counters.unrouted.add();
                return;
            };
            text = match message.param("requestId") {
                Some(id) => message.with([(span_of(message.text.as_str(), id), asked.to_string())]),
                None => cancelled_notice(&asked.to_string(), "the server took it back"),
            };
        }
        self.count_missed(session.mailbox.push(Incoming::Notification { about: None, message: text }));
    }

    pub(super) fn count_missed(&self, delivered: bool) {
        if !delivered {
            self.hub.counters.missed.add();
        }
    }
}
