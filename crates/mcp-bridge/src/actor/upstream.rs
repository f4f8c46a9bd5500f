use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::calls::{Flight, Origin, Own};
use super::interest::Holder;
use super::{Actor, Level};
use crate::command::Frame;
use crate::era::Era;
use crate::handshake::request;
use crate::json::{IdKey, RawJson, quoted};
use crate::mailbox::Incoming;
use crate::session::{CallNumber, cancelled_notice};
use crate::translate::modern_meta;

/// The bridge's own listen request to a server of the newer era. There is one for all clients,
/// and a new one replaces it when they want to hear of something else. Only one is on its way
/// at a time, so that a server that does not read is not sent more and more of them.
#[derive(Debug, Clone, Copy)]
pub(super) enum Listening {
    Off,
    /// Sent. `old` still speaks until this one is acknowledged; `dirty` says that it is outdated already.
    Asked {
        id: u64,
        old: Option<u64>,
        dirty: bool,
    },
    On {
        id: u64,
    },
}

impl Listening {
    /// Whether what this listen request says counts.
    pub(super) fn hears(self, subscription: &IdKey) -> bool {
        let Some(named) = subscription.as_own() else { return false };
        match self {
            Self::Off => false,
            Self::Asked { id, old, .. } => named == id || old == Some(named),
            Self::On { id } => named == id,
        }
    }
}

impl Actor {
    /// Tells a new process what the one before it knew, and clients that everything may be different.
    pub(super) fn reapply(&mut self) {
        self.carried.interest.reset();
        self.carried.levels.reset();
        self.apply_level();
        let uris: Vec<String> = self.carried.interest.uris().map(str::to_owned).collect();
        match self.server.era {
            Era::Legacy => uris.iter().for_each(|uri| self.send_subscribe(uri, None)),
            Era::Modern => {
                for uri in &uris {
                    self.carried.interest.applied(uri);
                }
                let offers = self.server.offers;
                if offers.tools_changed
                    || offers.prompts_changed
                    || offers.resources_changed
                    || !uris.is_empty()
                {
                    self.relisten();
                }
            }
        }
        if self.carried.epoch > 1 {
            let listens: Vec<CallNumber> =
                self.carried.interest.listens().map(|(number, _)| number).collect();
            listens.into_iter().for_each(|number| self.acknowledge(number));
            self.announce_tools();
            let offers = self.server.offers;
            for (what, offered) in
                [("prompts", offers.prompts_changed), ("resources", offers.resources_changed)]
            {
                if offered {
                    let method = format!("notifications/{what}/list_changed");
                    self.announce(&RawJson::known(format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#)));
                }
            }
        }
    }

    /// Counts somebody out of all subscriptions.
    pub(super) fn release(&mut self, holder: Holder) {
        let unwatched = self.carried.interest.release_all(holder);
        match self.server.era {
            Era::Legacy => unwatched.iter().for_each(|uri| self.send_unsubscribe(uri)),
            Era::Modern if !unwatched.is_empty() => self.relisten(),
            Era::Modern => {}
        }
    }

    pub(super) fn send_subscribe(&mut self, uri: &str, space: Option<OwnedSemaphorePermit>) {
        let params = format!(r#""uri":{}"#, quoted(uri));
        self.ask("resources/subscribe", &params, Own::Subscribe(uri.to_owned()), space);
    }

    pub(super) fn send_unsubscribe(&mut self, uri: &str) {
        self.ask("resources/unsubscribe", &format!(r#""uri":{}"#, quoted(uri)), Own::Idle, None);
    }

    pub(super) fn apply_level(&mut self) {
        if self.server.era == Era::Legacy
            && let Some(level) = self.carried.levels.due()
        {
            self.send_level(level);
        }
    }

    pub(super) fn send_level(&mut self, level: Level) {
        self.ask("logging/setLevel", &format!(r#""level":"{}""#, level.name()), Own::Idle, None);
    }

    /// Listens to what clients want to hear of now.
    pub(super) fn relisten(&mut self) {
        let old = match &mut self.listening {
            Listening::Asked { dirty, .. } => {
                *dirty = true;
                return;
            }
            Listening::On { id } => Some(*id),
            Listening::Off => None,
        };
        let offers = self.server.offers;
        let uris: Vec<String> = self.carried.interest.uris().map(quoted).collect();
        let params = format!(
            r#""notifications":{{"toolsListChanged":{},"promptsListChanged":{},"resourcesListChanged":{},"resourceSubscriptions":[{}]}},"_meta":{}"#,
            offers.tools_changed,
            offers.prompts_changed,
            offers.resources_changed,
            uris.join(","),
            modern_meta(&self.hub.options.mode),
        );
        let id = self.ask("subscriptions/listen", &params, Own::Listen, None);
        self.listening = Listening::Asked { id, old, dirty: false };
    }

    /// The server took note of a listen request.
    pub(super) fn listening_acknowledged(&mut self, subscription: &IdKey) {
        let Listening::Asked { id, old, dirty } = self.listening else { return };
        if subscription.as_own() != Some(id) {
            return;
        }
        self.listening = Listening::On { id };
        if let Some(old) = old
            && self.calls.land(old).is_some()
        {
            self.link.say(cancelled_notice(&old.to_string(), "replaced"));
        }
        if dirty {
            self.relisten();
        }
    }

    /// The server ended a listen request. It is made again when somebody wants something new.
    pub(super) fn listening_ended(&mut self, ended: u64) {
        match self.listening {
            Listening::On { id } | Listening::Asked { id, .. } if id == ended => {
                self.listening = Listening::Off;
            }
            Listening::Asked { id, old: Some(old), dirty } if old == ended => {
                self.listening = Listening::Asked { id, old: None, dirty };
            }
            _ => {}
        }
    }

    /// Sends a request of the bridge's own.
    fn ask(&mut self, method: &str, params: &str, own: Own, space: Option<OwnedSemaphorePermit>) -> u64 {
        let id = self.calls.next_id();
        let deadline = (!matches!(own, Own::Listen)).then(|| self.deadline());
        let number = CallNumber(self.hub.number());
        self.link.send(Frame { text: request(id, method, params), space });
        self.calls.launch(
            id,
            Flight { number, deadline, last: Instant::now(), origin: Origin::Own(own) },
            false,
        );
        id
    }

    /// Tells clients that other tools may be offered now.
    pub(super) fn announce_tools(&self) {
        if self.server.offers.tools_changed {
            let text = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
            self.announce(&RawJson::known(text.to_owned()));
        }
    }

    /// Passes the news that a list changed to everybody who wants it.
    pub(super) fn announce(&self, text: &RawJson) {
        let Ok(message) = crate::json::Message::read(text.clone()) else { return };
        let crate::json::Kind::Notification { method, .. } = &message.kind else { return };
        for session in self.hub.sessions() {
            // A client of the newer era hears only what it listens to.
            if session.introduction().is_some() {
                let incoming = Incoming::Notification { about: None, message: text.clone() };
                self.count_missed(session.mailbox.push_change(incoming, method.clone()));
            }
        }
        for (number, listen) in self.carried.interest.listens() {
            let wanted = match method.as_str() {
                "notifications/tools/list_changed" => listen.filter.tools_list_changed,
                "notifications/prompts/list_changed" => listen.filter.prompts_list_changed,
                "notifications/resources/list_changed" => listen.filter.resources_list_changed,
                _ => false,
            };
            if wanted {
                self.tell_listener(number, listen, &message, method.clone());
            }
        }
    }
}
