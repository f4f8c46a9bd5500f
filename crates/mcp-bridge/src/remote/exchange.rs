//! One request and its answer.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Response, StatusCode};

use super::body::{Media, broken, whole};
use super::events::Events;
use super::session::SESSION;
use super::{Pieces, Remote, headers};
use crate::era::named_version;
use crate::json::{IdKey, Kind, Message, RawJson, pick, text_of};
use crate::session::lock;

/// How much of a refusal is read.
const REFUSAL_BYTES: usize = 64 * 1024;
/// How long to wait before a broken stream is taken up again, unless the server says.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// How often in a row that may lead to nothing.
const MOST_RESUMES: usize = 10;

/// Sends a request and passes on what comes back. An error is the reason why there will be no answer.
pub(super) async fn exchange(remote: &Arc<Remote>, message: &Message, key: &IdKey) -> Result<(), String> {
    let begins = matches!(&message.kind, Kind::Request { method, .. } if method == "initialize");
    let request = headers::post(remote, message).await;
    let in_session = request.headers().contains_key(SESSION);
    let response = remote.endpoint.send(request).await.map_err(|error| broken(&error))?;
    let status = response.status();
    if !status.is_success() {
        if status == StatusCode::NOT_FOUND && in_session {
            remote.lost.notify_one();
        }
        return refused(remote, message, response).await;
    }
    if begins {
        lock(&remote.session).begin(response.headers());
    }
    let longest = remote.options.max_message_bytes;
    match Media::of(response.headers()) {
        Media::Json => {
            let answer = RawJson::known(whole(response.into_body(), longest).await?);
            if !answers(&answer, key) {
                return Err("the server's answer is none to this request".to_owned());
            }
            remote.heard(answer, message).await;
            Ok(())
        }
        Media::Events => {
            let events = Events::new(response.into_body(), longest);
            Stream { remote, message, key, begins }.follow(events).await
        }
        Media::Other => Err(format!("the server took the request with HTTP {status} and answers nothing")),
    }
}

/// The events that a request is answered with.
struct Stream<'a> {
    remote: &'a Arc<Remote>,
    message: &'a Message,
    key: &'a IdKey,
    begins: bool,
}

impl Stream<'_> {
    async fn follow(self, mut events: Events) -> Result<(), String> {
        let (mut last, mut retry, mut resumes) = (None, RETRY, 0);
        loop {
            let reason = match events.next().await {
                Ok(Some(event)) => {
                    resumes = 0;
                    last = event.id.or(last);
                    retry = event.retry.unwrap_or(retry).min(LONGEST_RETRY);
                    if event.data.is_empty() {
                        continue;
                    }
                    let text = RawJson::known(event.data);
                    let is_over = answers(&text, self.key);
                    self.remote.heard(text, self.message).await;
                    if is_over {
                        return Ok(());
                    }
                    continue;
                }
                Ok(None) => "the server ended its answer before it was complete".to_owned(),
                Err(error) => broken(&error),
            };
            // Only the older era has streams that can be taken up again, and only where it named the place.
            let can_resume = !self.begins && lock(&self.remote.session).is_open() && resumes < MOST_RESUMES;
            let Some(place) = last.as_ref().filter(|_| can_resume) else { return Err(reason) };
            resumes += 1;
            tokio::time::sleep(retry).await;
            let request = headers::resume(self.remote, place);
            match self.remote.endpoint.send(request).await {
                Ok(response) if response.status().is_success() => {
                    events = Events::new(response.into_body(), self.remote.options.max_message_bytes);
                }
                Ok(_) => return Err(reason),
                // A server that is busy may be there the next time.
                Err(_) => {}
            }
        }
    }
}

/// Whether a message is the answer to the request of this id.
fn answers(text: &RawJson, key: &IdKey) -> bool {
    let Ok([id, method]) = pick(text.as_str(), ["id", "method"]) else { return false };
    method.is_none() && id.and_then(IdKey::of).as_ref() == Some(key)
}

/// A request that was refused: the server's own error, if there is one.
async fn refused(remote: &Remote, message: &Message, response: Response<Pieces>) -> Result<(), String> {
    let status = response.status();
    let text = whole(response.into_body(), REFUSAL_BYTES).await.unwrap_or_default();
    let error = pick(&text, ["error"]).ok().and_then(|[error]| error);
    let [code, reason] = error.and_then(|error| pick(error, ["code", "message"]).ok()).unwrap_or_default();
    let Kind::Request { id, .. } = &message.kind else { return Ok(()) };
    if let (Some(error), Some(_)) = (error, code.and_then(|code| code.parse::<i64>().ok())) {
        let id = message.at(id);
        remote.say(RawJson::known(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))).await;
        return Ok(());
    }
    let reason = reason.and_then(text_of).unwrap_or_else(|| text.chars().take(200).collect());
    Err(format!("the server refused with HTTP {status}: {reason}"))
}

impl Remote {
    /// Passes on what the server said while it answered a request, and notes what has to be known of it.
    pub(super) async fn heard(&self, text: RawJson, asked: &Message) {
        if let Kind::Request { method, id, .. } = &asked.kind
            && IdKey::of(asked.at(id)).is_some_and(|key| answers(&text, &key))
        {
            match method.as_str() {
                "initialize" => lock(&self.session).agree(&text),
                "tools/list" if named_version(asked).is_ok_and(|version| version.is_some()) => {
                    self.marks.learn(&text);
                }
                _ => {}
            }
        }
        self.say(text).await;
    }

    /// Asks for what the server says unasked.
    pub(super) async fn open_stream(&self, place: Option<&str>) -> std::io::Result<Response<Pieces>> {
        let request = match place {
            Some(place) => headers::resume(self, place),
            None => headers::without_body(self, &Method::GET),
        };
        self.endpoint.send(request).await
    }
}
