use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::calls::{Effect, Flight, Origin, Waiter};
use super::interest::{Holder, Listen};
use super::{Actor, Level};
use crate::command::{Answer, Command, Filter, Frame, Submission, Task};
use crate::era::{Era, SUBSCRIPTION_KEY};
use crate::error::CallError;
use crate::handshake::{local_error, local_result};
use crate::hub::after;
use crate::json::{Kind, RawJson, quoted};
use crate::mailbox::Incoming;
use crate::session::CallNumber;

impl Actor {
    pub(super) fn obey(&mut self, command: Command) {
        let submission = match command {
            Command::Write { frame, epoch } => {
                if epoch.is_none_or(|epoch| epoch == self.carried.epoch) {
                    self.link.send(frame);
                }
                return;
            }
            Command::Call(submission) => submission,
        };
        // A cancellation may overtake its call, because it has no queue to wait in.
        if submission.state.is_cancelled() {
            return reply(submission.answer, Err(CallError::Cancelled));
        }
        if submission.era != self.server.era {
            // It was written for the process before this one.
            let reason = crate::error::EndReason::Closed.into();
            return reply(submission.answer, Err(CallError::Ended { reason, sent: false }));
        }
        // What a client asked for just before it left would be kept for nobody.
        let lasts = matches!(submission.task, Task::Subscribe(_) | Task::Level(_) | Task::Listen(_));
        let left = submission.session.as_ref().is_some_and(|session| self.hub.session(session.id).is_none());
        if lasts && left {
            return reply(submission.answer, Err(CallError::Cancelled));
        }
        match submission.task.clone() {
            Task::Forward if self.calls.must_queue() => self.calls.queue(submission),
            Task::Forward | Task::Probe => self.forward(submission),
            Task::Subscribe(uri) => self.subscribe(submission, uri),
            Task::Unsubscribe(uri) => self.unsubscribe(submission, uri),
            Task::Level(level) => self.set_level(submission, level),
            Task::Listen(filter) => self.listen(submission, filter),
        }
    }

    /// Sends a client's request under an id of the process.
    pub(super) fn forward(&mut self, submission: Submission) {
        self.forward_with(submission, Effect::None);
    }

    fn forward_with(&mut self, submission: Submission, effect: Effect) {
        let id = self.calls.next_id();
        let number = submission.state.number;
        let takes_turn = matches!(submission.task, Task::Forward);
        let deadline = submission.patience.map(|patience| patience.until);
        let last = after(Instant::now(), self.hub.options.longest_call);
        let mut edits = Vec::new();
        if let Kind::Request { id: own, .. } = &submission.message.kind {
            edits.push((own.clone(), id.to_string()));
        }
        // The id is unique among the ids of the process, so it is unique among its tokens.
        edits.extend(submission.token.clone().map(|token| (token, id.to_string())));
        let text = submission.message.with(edits);
        let (waiter, space) = wait_for(submission);
        self.link.send(Frame { text, space });
        self.calls.launch(
            id,
            Flight { number, deadline, last, origin: Origin::Client(waiter, effect) },
            takes_turn,
        );
    }

    fn subscribe(&mut self, submission: Submission, uri: String) {
        let Some(client) = submission.session.as_ref().map(|session| session.id) else {
            return self.forward(submission);
        };
        if self.carried.interest.count(client) >= self.hub.options.max_subscriptions {
            return answer_error(submission, -32600, "too many subscriptions");
        }
        let known = self.carried.interest.hold(&uri, Holder::Client(client));
        match (self.server.era, known) {
            (Era::Legacy, false) => self.forward_with(submission, Effect::Subscribed(uri)),
            (Era::Legacy, true) => answer(submission, "{}"),
            (Era::Modern, _) => {
                self.carried.interest.applied(&uri);
                answer(submission, "{}");
                if !known {
                    self.relisten();
                }
            }
        }
    }

    fn unsubscribe(&mut self, submission: Submission, uri: String) {
        let Some(client) = submission.session.as_ref().map(|session| session.id) else {
            return self.forward(submission);
        };
        let last = self.carried.interest.release(&uri, Holder::Client(client));
        match (self.server.era, last) {
            (Era::Legacy, true) => self.forward(submission),
            (_, false) => answer(submission, "{}"),
            (Era::Modern, true) => {
                answer(submission, "{}");
                self.relisten();
            }
        }
    }

    fn set_level(&mut self, submission: Submission, level: Level) {
        let Some(client) = submission.session.as_ref().map(|session| session.id) else {
            return self.forward(submission);
        };
        self.carried.levels.want(client, level);
        match self.carried.levels.due() {
            Some(due) if due == level => self.forward(submission),
            Some(due) => {
                self.send_level(due);
                answer(submission, "{}");
            }
            None => answer(submission, "{}"),
        }
    }

    fn listen(&mut self, mut submission: Submission, mut filter: Filter) {
        let Some(session) = submission.session.clone() else {
            return answer_error(submission, -32600, "nobody to listen");
        };
        let most = self.hub.options.max_subscriptions;
        filter.resource_subscriptions.sort_unstable();
        filter.resource_subscriptions.dedup();
        if self.carried.interest.count(session.id) + 1 + filter.resource_subscriptions.len() > most {
            return answer_error(submission, -32600, "too many subscriptions");
        }
        let offers = self.server.offers;
        filter.tools_list_changed &= offers.tools_changed;
        filter.prompts_list_changed &= offers.prompts_changed;
        filter.resources_list_changed &= offers.resources_changed;
        if !offers.subscribe {
            filter.resource_subscriptions.clear();
        }
        let number = submission.state.number;
        let mut space = submission.space.take();
        let mut unknown = false;
        for uri in &filter.resource_subscriptions {
            if self.carried.interest.hold(uri, Holder::Listen(number)) {
                continue;
            }
            unknown = true;
            if self.server.era == Era::Legacy {
                self.send_subscribe(uri, space.take());
            } else {
                self.carried.interest.applied(uri);
            }
        }
        let (waiter, _) = wait_for(submission);
        self.carried.interest.listen(number, Listen { session, filter, waiter });
        if unknown && self.server.era == Era::Modern {
            self.relisten();
        }
        self.acknowledge(number);
    }

    /// Tells a listener what it will hear of.
    pub(super) fn acknowledge(&self, number: CallNumber) {
        let Some(listen) = self.carried.interest.listen_of(number) else { return };
        let filter = &listen.filter;
        let mut honoured: Vec<String> = [
            ("toolsListChanged", filter.tools_list_changed),
            ("promptsListChanged", filter.prompts_list_changed),
            ("resourcesListChanged", filter.resources_list_changed),
        ]
        .into_iter()
        .filter(|(_, honoured)| *honoured)
        .map(|(name, _)| format!(r#""{name}":true"#))
        .collect();
        if !filter.resource_subscriptions.is_empty() {
            let uris: Vec<String> = filter.resource_subscriptions.iter().map(|uri| quoted(uri)).collect();
            honoured.push(format!(r#""resourceSubscriptions":[{}]"#, uris.join(",")));
        }
        let message = RawJson::known(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"{SUBSCRIPTION_KEY}":{}}},"notifications":{{{}}}}}}}"#,
            listen.waiter.id,
            honoured.join(","),
        ));
        let incoming = Incoming::Notification { about: Some(number), message };
        listen.session.mailbox.push_change(incoming, format!("acknowledged {number:?}"));
    }

    pub(super) fn stop_listening(&mut self, number: CallNumber) {
        if let Some(listen) = self.carried.interest.unlisten(number) {
            self.release(Holder::Listen(number));
            reply(listen.waiter.answer, Err(CallError::Cancelled));
        }
    }

    /// Takes back what a call that failed would have meant.
    pub(super) fn undo(&mut self, waiter: &Waiter, effect: Effect) {
        if let (Effect::Subscribed(uri), Some(session)) = (effect, &waiter.session)
            && self.carried.interest.retract(&uri, Holder::Client(session.id))
        {
            self.send_unsubscribe(&uri);
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        after(Instant::now(), self.hub.live.call_timeout())
    }
}

fn wait_for(submission: Submission) -> (Waiter, Option<tokio::sync::OwnedSemaphorePermit>) {
    let own = |span: &crate::json::Span| submission.message.at(span).to_owned();
    let id = match &submission.message.kind {
        Kind::Request { id, .. } | Kind::Response { id, .. } => own(id),
        Kind::Notification { .. } => "null".to_owned(),
    };
    let waiter = Waiter {
        id,
        token: submission.token.as_ref().map(own),
        session: submission.session,
        state: submission.state,
        timeout: submission.patience.map_or(Duration::ZERO, |patience| patience.timeout),
        answer: submission.answer,
        hold: submission.hold,
    };
    (waiter, submission.space)
}

fn answer(submission: Submission, result: &str) {
    let (waiter, _) = wait_for(submission);
    let text = local_result(&waiter.id, result);
    reply(waiter.answer, Ok(text));
}

fn answer_error(submission: Submission, code: i64, text: &str) {
    let (waiter, _) = wait_for(submission);
    let text = local_error(&waiter.id, code, text);
    reply(waiter.answer, Ok(text));
}

fn reply(to: oneshot::Sender<Answer>, answer: Answer) {
    // A caller that is gone already does not mind.
    let _gone = to.send(answer);
}
