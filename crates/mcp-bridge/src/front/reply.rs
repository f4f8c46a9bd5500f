//! Responses that are no refusals.

use bytes::Bytes;
use futures::Stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::body::FrontBody;
use super::options::FrontOptions;
use crate::RawJson;
use crate::json::{Kind, Message, Outcome, pick};

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// One message.
pub(super) fn json(status: StatusCode, message: RawJson) -> Response<FrontBody> {
    let mut response = empty(status);
    *response.body_mut() = FrontBody::whole(message.into_bytes());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Messages as they come.
pub(super) fn events(
    events: impl Stream<Item = Bytes> + Send + 'static,
    options: &FrontOptions,
) -> Response<FrontBody> {
    let mut response = empty(StatusCode::OK);
    *response.body_mut() = FrontBody::events(events, options.keep_alive);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// Nothing to say.
pub(super) fn empty(status: StatusCode) -> Response<FrontBody> {
    let mut response = Response::new(FrontBody::whole(Bytes::new()));
    *response.status_mut() = status;
    response
}

/// The status that the newer era has for an answer.
pub(super) fn modern_status(answer: &RawJson) -> StatusCode {
    let code = Message::read(answer.clone()).ok().and_then(|message| match &message.kind {
        Kind::Response { outcome: Outcome::Error(error), .. } => {
            let [code] = pick(message.at(error), ["code"]).ok()?;
            code?.parse::<i64>().ok()
        }
        _ => None,
    });
    match code {
        Some(-32601) => StatusCode::NOT_FOUND,
        Some(-32022..=-32020 | -32600) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
