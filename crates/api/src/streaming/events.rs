//! Server-sent events.
//!
//! The data of every event is JSON. Events are made when the client takes them: one that
//! reads slowly slows what it reads, and nothing piles up here. A client that goes away drops
//! the stream, and with it whatever it was about.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream};
use serde::Serialize;
use utoipa::ToSchema;

use crate::errors::ApiError;

/// How long a stream is silent before a comment shows that it lives. Also how soon a client
/// that went away without a word is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// One event of a stream, as clients read it.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is described, and made by what writes the stream")]
pub(crate) struct ServerSentEvent {
    /// What kind of event it is.
    event: String,
    /// JSON.
    data: String,
    /// Its place among all others, where a stream can be gone on with.
    id: Option<String>,
}

/// An event with JSON in it.
pub(crate) fn event(name: &str, data: &impl Serialize) -> Event {
    // Our own structures always become JSON.
    let data = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
    Event::default().event(name).data(data)
}

/// The event in which a stream ends that failed.
pub(crate) fn failed(error: ApiError) -> Event {
    event("error", &error.into_content())
}

/// What gives the events of a stream, one after the other.
pub(crate) trait EventSource: Send + 'static {
    /// The next event; `None` when there are no more.
    fn next(&mut self) -> impl Future<Output = Option<Event>> + Send;
}

/// The answer that consists of events.
pub(crate) fn events(source: impl EventSource) -> Response {
    let events = stream::unfold(source, |mut source| async move {
        let event = source.next().await?;
        Some((Ok::<_, Infallible>(event), source))
    });
    respond(events)
}

fn respond(events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    let mut response = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response();
    // Proxies that collect answers before they pass them on would defeat the purpose.
    response
        .headers_mut()
        .insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}
