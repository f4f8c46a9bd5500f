//! The older era: POST, GET and DELETE of sessions.

use std::sync::Arc;

use futures::future::join_all;
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use super::Inner;
use super::body::FrontBody;
use super::connector::Principal;
use super::error::Refusal;
use super::observe::Watched;
use super::peer::Source;
use super::reply::{self, SESSION_ID};
use super::session::{ClientSession, STANDALONE};
use super::stream::{EventLog, Start, parse_id};
use super::{gate, sessions};
use crate::Declaration;
use crate::client::MOST_IN_BATCH;
use crate::era::{BATCHING, LEGACY, NEWEST_LEGACY, negotiate};
use crate::error::CallError;
use crate::handshake::local_error;
use crate::json::{Kind, Message, Outcome, RawJson, pick, split_batch, text_of};
use crate::translate::OWN_INFO;

/// Takes one message.
pub(super) async fn post(
    inner: &Arc<Inner>,
    principal: Principal,
    headers: &HeaderMap,
    message: Message,
) -> Result<Response<FrontBody>, Refusal> {
    if matches!(&message.kind, Kind::Request { method, .. } if method == "initialize") {
        return initialize(inner, principal, message).await;
    }
    let about = |refusal: Refusal| refusal.about(&message.text);
    let session = session_of(&inner.sessions, &principal, headers).map_err(about)?;
    match &message.kind {
        Kind::Request { .. } => call(inner, session, message, headers).await,
        Kind::Notification { .. } | Kind::Response { .. } => {
            take(&session, message).await?;
            Ok(reply::empty(StatusCode::ACCEPTED))
        }
    }
}

/// Takes several messages, which only one version has.
pub(super) async fn batch(
    inner: &Arc<Inner>,
    principal: &Principal,
    headers: &HeaderMap,
    text: RawJson,
) -> Result<Response<FrontBody>, Refusal> {
    let refused = |text: &str| Refusal::new(StatusCode::BAD_REQUEST, -32600, text);
    if !headers.contains_key(SESSION_ID) {
        return Err(refused("a batch is not allowed here"));
    }
    let session = session_of(&inner.sessions, principal, headers)?;
    if session.version != BATCHING {
        return Err(refused("a batch is not allowed in this version"));
    }
    let parts = split_batch(&text).map_err(Refusal::malformed)?;
    if parts.is_empty() || parts.len() > MOST_IN_BATCH {
        return Err(refused("a batch has 1 to 100 messages"));
    }
    let (mut calls, mut answers) = (Vec::new(), Vec::new());
    for part in parts {
        match Message::read_strictly(part.clone()) {
            Ok(message) if matches!(message.kind, Kind::Request { .. }) => calls.push(message),
            Ok(message) => take(&session, message).await?,
            Err(malformed) => answers.extend(CallError::from(malformed).answer_to(&part)),
        }
    }
    if calls.is_empty() && answers.is_empty() {
        return Ok(reply::empty(StatusCode::ACCEPTED));
    }
    let log = session.open_stream().ok_or_else(|| Refusal::too_many("open requests"))?;
    for answer in answers {
        log.push(answer, None);
    }
    let watch = |message: Message| {
        let watched = Watched::new(inner.options.observer.as_ref(), &session.principal, &message, headers);
        (message, watched)
    };
    let calls: Vec<_> = calls.into_iter().map(watch).collect();
    let (shared, of_calls, written) = (inner.clone(), session.clone(), log.clone());
    tokio::spawn(async move {
        let (inner, session, log) = (&shared, &of_calls, &written);
        let calls = calls.into_iter().map(|(message, watched)| async move {
            if let Some(answer) = run(inner, session, log, message, watched).await {
                log.push(answer, None);
            }
        });
        join_all(calls).await;
        log.finish(None);
        session.close_stream(log);
    });
    Ok(reply::events(log.read(Some(0), false), &inner.options))
}

/// Opens the standalone stream, or a stream that broke.
pub(super) fn get(
    inner: &Inner,
    principal: &Principal,
    headers: &HeaderMap,
) -> Result<Response<FrontBody>, Refusal> {
    gate::get(headers)?;
    let session = session_of(&inner.sessions, principal, headers)?;
    let events = match headers.get("last-event-id") {
        None => session.stream(STANDALONE).map(|log| log.read(None, false)),
        Some(id) => {
            let id = id.to_str().ok().and_then(parse_id);
            id.and_then(|(stream, event)| Some(session.stream(stream)?.read(Some(event), false)))
        }
    };
    Ok(reply::events(events.ok_or_else(Refusal::no_such_event)?, &inner.options))
}

/// Ends a session.
pub(super) fn delete(
    inner: &Inner,
    principal: &Principal,
    headers: &HeaderMap,
) -> Result<Response<FrontBody>, Refusal> {
    let session = session_of(&inner.sessions, principal, headers)?;
    inner.sessions.end(&session);
    Ok(reply::empty(StatusCode::NO_CONTENT))
}

fn session_of(
    sessions: &sessions::Sessions,
    principal: &Principal,
    headers: &HeaderMap,
) -> Result<Arc<ClientSession>, Refusal> {
    let id = headers.get(SESSION_ID).ok_or_else(Refusal::no_session_named)?;
    // Who says nothing speaks a version from before the header.
    if let Some(version) = gate::version(headers)?
        && !LEGACY.contains(&version)
    {
        return Err(Refusal::legacy_version(version));
    }
    let session = sessions.get(id.to_str().unwrap_or_default(), principal)?;
    session.touch();
    Ok(session)
}

async fn initialize(
    inner: &Arc<Inner>,
    principal: Principal,
    message: Message,
) -> Result<Response<FrontBody>, Refusal> {
    let about = |refusal: Refusal| refusal.about(&message.text);
    let options = &inner.options;
    let [asked, capabilities, info] =
        pick(message.params().unwrap_or("{}"), ["protocolVersion", "capabilities", "clientInfo"])
            .map_err(|malformed| about(Refusal::malformed(malformed)))?;
    let version = negotiate(&asked.and_then(text_of).unwrap_or_default());
    let raw = |value: Option<&str>, otherwise: &str| RawJson::known(value.unwrap_or(otherwise).to_owned());
    let declaration = Declaration { capabilities: raw(capabilities, "{}"), info: raw(info, OWN_INFO) };
    inner.sessions.make_room(&principal, options).map_err(about)?;
    let peer = Source::session(inner, &principal, declaration).await.map_err(|error| about(error.into()))?;
    let begun = peer.begin(message.text.clone(), options.call_timeout, |_| ()).await;
    let answer = match begun {
        Ok(begun) => begun.answer.await,
        Err(error) => Err(error),
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            let answer = error.answer_to(&message.text);
            return Ok(answer.map_or_else(
                || reply::empty(StatusCode::ACCEPTED),
                |answer| reply::json(StatusCode::OK, answer),
            ));
        }
    };
    let agreed = Message::read(answer.clone())
        .is_ok_and(|answer| matches!(answer.kind, Kind::Response { outcome: Outcome::Result(_), .. }));
    let mut response = reply::json(StatusCode::OK, answer);
    if agreed {
        let session = ClientSession::start(principal, version, peer, options);
        if let Ok(id) = HeaderValue::from_str(&session.id) {
            response.headers_mut().insert(SESSION_ID, id);
        }
        inner.sessions.insert(session, options).map_err(about)?;
    }
    Ok(response)
}

/// Takes a message that is not answered.
async fn take(session: &ClientSession, message: Message) -> Result<(), Refusal> {
    let taken = match &message.kind {
        Kind::Notification { .. } => session.peer.notify(message.text).await,
        _ => session.peer.respond(message.text).await,
    };
    match taken {
        Err(CallError::Malformed(malformed)) => Err(Refusal::malformed(malformed)),
        Err(error @ CallError::TooLong { .. }) => {
            Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error.code(), error.to_string()))
        }
        Err(error) => {
            // There is nothing that a client could do about it.
            tracing::debug!(%error, "what a client said did not reach the server");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

async fn call(
    inner: &Arc<Inner>,
    session: Arc<ClientSession>,
    message: Message,
    headers: &HeaderMap,
) -> Result<Response<FrontBody>, Refusal> {
    let log = session.open_stream();
    let log = log.ok_or_else(|| Refusal::too_many("open requests").about(&message.text))?;
    let watched = Watched::new(inner.options.observer.as_ref(), &session.principal, &message, headers);
    let (shared, of_call, written) = (inner.clone(), session.clone(), log.clone());
    // A task of its own, because a lost connection does not cancel.
    tokio::spawn(async move {
        let answer = run(&shared, &of_call, &written, message, watched).await;
        written.finish(answer);
        of_call.close_stream(&written);
    });
    Ok(match log.start(inner.options.json_grace).await {
        Start::Answer(answer) => {
            session.forget_stream(log.number);
            reply::json(StatusCode::OK, answer)
        }
        Start::Nothing => reply::empty(StatusCode::ACCEPTED),
        Start::Stream => {
            // Clients of earlier versions take an event without data for a broken message.
            let primed = session.version == NEWEST_LEGACY;
            reply::events(log.read(Some(0), primed), &inner.options)
        }
    })
}

/// Makes a call whose messages go to a stream, and gives back its answer.
async fn run(
    inner: &Inner,
    session: &ClientSession,
    log: &EventLog,
    message: Message,
    mut watched: Watched,
) -> Option<RawJson> {
    if let Kind::Request { id, method, .. } = &message.kind
        && method == "initialize"
    {
        return Some(local_error(message.at(id), -32600, "the session is initialized already"));
    }
    let request = message.text.clone();
    let note = |tag| session.assign(tag, log.number);
    let begin = session.peer.begin(message.text, inner.options.call_timeout, note);
    let begun = tokio::select! {
        begun = begin => begun,
        () = session.ended() => return None,
    };
    let answer = match begun {
        Ok(begun) => tokio::select! {
            answer = begun.answer => answer,
            () = session.ended() => {
                if let Some(cancel) = begun.cancel {
                    cancel.cancel();
                }
                return None;
            }
        },
        Err(error) => Err(error),
    };
    // What was said before the answer comes before it.
    session.move_arrived().await;
    watched.over(&answer);
    answer.map_or_else(|error| error.answer_to(&request), Some)
}
