use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream};

use crate::actor::Level;
use crate::call::Call;
use crate::command::{Filter, Task};
use crate::era::{BATCHING, Era, MODERN, Server, named_version, negotiate};
use crate::error::CallError;
use crate::handshake::{local_error, local_result};
use crate::hub::{Departure, Patience, Shared};
use crate::json::{IdKey, Kind, Malformed, Message, RawJson, pick, split_batch, text_of};
use crate::mailbox::Incoming;
use crate::rules::{NOT_OFFERED, ToolRules, UNNAMED};
use crate::session::{Asked, CallNumber, Introduction, Session, lock};
use crate::translate::{ABOLISHED, is_for_server};

/// How many messages a batch may have.
pub(crate) const MOST_IN_BATCH: usize = 100;

/// One client of a bridge: a session of the older era, or whoever sends requests of the newer one.
///
/// Dropping it ends its subscriptions. It does not cancel its calls; see [`Call`].
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
    session: Arc<Session>,
}

/// How a request is dealt with.
pub(crate) enum Route {
    /// With this answer, which the server is not asked for.
    Local(RawJson),
    /// By the task that owns the process.
    Owner(Task),
}

impl Client {
    pub(crate) fn new(shared: Arc<Shared>, session: Arc<Session>) -> Self {
        Self { shared, session }
    }

    /// Sends a request and waits for its answer: a whole message with the client's own id.
    pub async fn request(&self, message: RawJson) -> Result<RawJson, CallError> {
        self.begin(message, None).await?.answer().await
    }

    /// Sends a request. `None` for the timeout takes the bridge's.
    pub async fn begin(&self, message: RawJson, timeout: Option<Duration>) -> Result<Call, CallError> {
        self.begin_noting(message, timeout, |_| ()).await
    }

    /// Sends a request, and says under which number before the server can say anything about it.
    pub(crate) async fn begin_noting(
        &self,
        message: RawJson,
        timeout: Option<Duration>,
        note: impl FnOnce(CallNumber),
    ) -> Result<Call, CallError> {
        let patience = Patience::new(timeout.unwrap_or_else(|| self.shared.hub.live.call_timeout()));
        let message = Message::read_strictly(message)?;
        let Kind::Request { id, method, .. } = &message.kind else {
            return Err(Malformed::Shape("the message is no request").into());
        };
        let id = message.at(id).to_owned();
        let method = method.clone();
        let version = named_version(&message)?;
        let speaks = match version {
            Some(version) if version != MODERN => return Err(CallError::UnsupportedVersion(version)),
            Some(_) => Era::Modern,
            None if matches!(method.as_str(), "server/discover" | "subscriptions/listen") => Era::Modern,
            None => Era::Legacy,
        };
        let mut call = Call::open(self.shared.clone(), self.session.clone(), message, speaks, patience)?;
        note(call.number());
        let server = self.shared.ready(&patience).await?;
        match self.route(call.message(), &id, &method, speaks, &server)? {
            Route::Local(answer) => call.answered(answer),
            Route::Owner(task) => call.submit(task, &server).await?,
        }
        Ok(call)
    }

    /// Tells the server something, or takes a request back.
    pub async fn notify(&self, message: RawJson) -> Result<(), CallError> {
        let message = Message::read_strictly(message)?;
        let Kind::Notification { method, .. } = &message.kind else {
            return Err(Malformed::Shape("the message is no notification").into());
        };
        if method == "notifications/cancelled" {
            if let Some(id) = message.param("requestId").and_then(IdKey::of) {
                for call in self.session.open_calls(&id) {
                    call.cancel();
                    self.shared.hub.departures.push(Departure::Call(call.number));
                }
            }
            return Ok(());
        }
        let server = self.shared.ready(&Patience::new(self.shared.hub.live.call_timeout())).await?;
        if !is_for_server(method, server.era, &self.shared.hub.options.mode) {
            return Ok(());
        }
        self.shared.write(message.text.clone(), None).await
    }

    /// Answers an [`Incoming::Request`]. An answer to what nobody asked, or what a process asked
    /// that is gone, is dropped.
    pub async fn respond(&self, message: RawJson) -> Result<(), CallError> {
        let message = Message::read_strictly(message)?;
        let Kind::Response { id, .. } = &message.kind else {
            return Err(Malformed::Shape("the message is no response").into());
        };
        let asked = IdKey::of(message.at(id)).and_then(|key| key.as_own());
        match asked.and_then(|asked| self.session.answered(asked)) {
            Some(Asked::Server { epoch, id: original }) => {
                self.shared.write(message.with([(id.clone(), original)]), Some(epoch)).await
            }
            Some(Asked::Round(asker)) => {
                // The call may have been given up meanwhile.
                let _gone = asker.send(message);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Takes a batch apart and puts the answers together; `None` if there are none. Only the
    /// version 2025-03-26 has batches, and servers do not understand them.
    pub async fn batch(&self, messages: RawJson) -> Result<Option<RawJson>, CallError> {
        let agreed = self.session.introduction().is_some_and(|introduction| introduction.version == BATCHING);
        if !agreed {
            return Err(Malformed::Shape("a batch is not allowed in this version").into());
        }
        let parts = split_batch(&messages)?;
        if parts.is_empty() || parts.len() > MOST_IN_BATCH {
            return Err(Malformed::Shape("a batch has 1 to 100 messages").into());
        }
        let answers = futures::future::join_all(parts.into_iter().map(|part| self.one_of_batch(part))).await;
        let answers: Vec<String> =
            answers.iter().flatten().map(|answer| answer.as_str().to_owned()).collect();
        Ok((!answers.is_empty()).then(|| RawJson::known(format!("[{}]", answers.join(",")))))
    }

    /// What is sent to the client apart from answers, in order. It ends when the client is dropped.
    /// Of several such streams each message goes to one.
    pub fn incoming(&self) -> impl Stream<Item = Incoming> + Send + use<> {
        stream::unfold(self.session.clone(), |session| async move {
            let next = session.mailbox.next().await?;
            Some((next, session))
        })
    }

    /// The next message for the client that waits already.
    pub(crate) fn take_incoming(&self) -> Option<Incoming> {
        self.session.mailbox.take()
    }

    /// Waits until there is a message to take.
    pub(crate) async fn news(&self) {
        self.session.mailbox.news().await;
    }

    /// Makes it a client of the older era without a handshake.
    pub(crate) fn introduce(&self, introduction: Introduction) {
        self.session.introduce(introduction);
    }

    async fn one_of_batch(&self, part: RawJson) -> Option<RawJson> {
        let kind = Message::read_strictly(part.clone()).map(|message| message.kind);
        let done = match kind {
            Ok(Kind::Request { .. }) => {
                return self.request(part.clone()).await.map_or_else(|e| e.answer_to(&part), Some);
            }
            Ok(Kind::Notification { .. }) => self.notify(part.clone()).await,
            Ok(Kind::Response { .. }) => self.respond(part.clone()).await,
            Err(malformed) => return CallError::from(malformed).answer_to(&part),
        };
        if let Err(error) = done {
            tracing::debug!(%error, "a message of a batch was dropped");
        }
        None
    }

    fn route(
        &self,
        message: &Message,
        id: &str,
        method: &str,
        speaks: Era,
        server: &Server,
    ) -> Result<Route, CallError> {
        let local = |result: &str| Ok(Route::Local(local_result(id, result)));
        let refused = |code, text: &str| Ok(Route::Local(local_error(id, code, text)));
        if speaks == Era::Modern && ABOLISHED.contains(&method) {
            return refused(-32601, "Method not found");
        }
        match method {
            "initialize" => {
                let params = message.params().unwrap_or("{}");
                let [asked, capabilities, info] =
                    pick(params, ["protocolVersion", "capabilities", "clientInfo"])?;
                let version = negotiate(&asked.and_then(text_of).unwrap_or_default());
                let result = server.initialize_result(version)?;
                self.session.introduce(Introduction {
                    version,
                    capabilities: capabilities.unwrap_or("{}").to_owned(),
                    info: info.unwrap_or(crate::translate::OWN_INFO).to_owned(),
                });
                local(&result)
            }
            "server/discover" => local(&server.discover_result()?),
            "ping" => local("{}"),
            "subscriptions/listen" => {
                let filter = message.param("notifications").unwrap_or("{}");
                match serde_json::from_str::<Filter>(filter) {
                    Ok(filter) => Ok(Route::Owner(Task::Listen(filter))),
                    Err(_) => refused(-32602, "notifications is not what can be listened to"),
                }
            }
            "tools/call" => match message.param("name").and_then(text_of) {
                // What the bridge cannot read, the server might.
                None => refused(NOT_OFFERED, UNNAMED),
                Some(name) if !self.shared.hub.rules().offers(&name) => {
                    refused(NOT_OFFERED, &ToolRules::refusal(&name))
                }
                Some(_) => Ok(Route::Owner(Task::Forward)),
            },
            "resources/subscribe" | "resources/unsubscribe" => {
                let Some(uri) = message.param("uri").and_then(text_of) else {
                    return refused(-32602, "uri is not a string");
                };
                let subscribe = method == "resources/subscribe";
                Ok(Route::Owner(if subscribe { Task::Subscribe(uri) } else { Task::Unsubscribe(uri) }))
            }
            "logging/setLevel" => {
                let Some(level) =
                    message.param("level").and_then(text_of).and_then(|name| Level::parse(&name))
                else {
                    return refused(-32602, "level is not a log level");
                };
                if server.era == Era::Modern {
                    *lock(&self.session.level) = Some(level.name().to_owned());
                    return local("{}");
                }
                Ok(Route::Owner(Task::Level(level)))
            }
            _ => Ok(Route::Owner(Task::Forward)),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let hub = &self.shared.hub;
        lock(&hub.sessions).remove(&self.session.id);
        self.session.mailbox.close();
        hub.departures.push(Departure::Client(self.session.clone()));
    }
}
