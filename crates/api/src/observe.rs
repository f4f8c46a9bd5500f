//! A span and an id for every request, and a log line for those that failed.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tracing::{Instrument, field};
use uuid::Uuid;

use crate::errors::ErrorTrace;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id of a client's own that is taken over.
const MAX_ID_LENGTH: usize = 64;

/// Gives the request an id, which the answer and every log line on the way carry.
///
/// Neither headers nor bodies nor the query are logged: they hold tokens, and what people
/// work on.
pub(crate) async fn observe(request: Request, next: Next) -> Response {
    let id = request_id(&request);
    let span = tracing::info_span!(
        "request",
        id = id.to_str().unwrap_or_default(),
        method = %request.method(),
        route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str),
        path = request.uri().path(),
        status = field::Empty,
    );
    async move {
        let started = Instant::now();
        let mut response = next.run(request).await;
        response.headers_mut().insert(REQUEST_ID, id);
        let status = response.status();
        tracing::Span::current().record("status", status.as_u16());
        let duration_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        match response.extensions().get::<ErrorTrace>() {
            Some(ErrorTrace { code, cause }) if status.is_server_error() => {
                let (code, cause) = (code.as_str(), cause.as_deref().unwrap_or("unknown"));
                tracing::error!(code, cause, duration_us, "request failed: {code}: {cause}");
            }
            Some(ErrorTrace { code, .. }) => {
                tracing::debug!(code = code.as_str(), duration_us, "request refused: {}", code.as_str());
            }
            None => tracing::debug!(duration_us, "request answered with {status}"),
        }
        response
    }
    .instrument(span)
    .await
}

/// The client's own id where it has a harmless one, else a new one.
fn request_id(request: &Request) -> HeaderValue {
    let harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    match request.headers().get(REQUEST_ID) {
        Some(own)
            if (1..=MAX_ID_LENGTH).contains(&own.len()) && own.as_bytes().iter().copied().all(harmless) =>
        {
            own.clone()
        }
        _ => {
            let mut text = [0; uuid::fmt::Simple::LENGTH];
            let text = Uuid::now_v7().simple().encode_lower(&mut text);
            HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("unknown"))
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn check(sent: Option<&str>, kept: bool) {
        let mut request = Request::new(Body::empty());
        if let Some(sent) = sent {
            request.headers_mut().insert(REQUEST_ID, sent.parse().unwrap());
        }
        let id = request_id(&request);
        assert_eq!(Some(id.to_str().unwrap()) == sent, kept, "{sent:?}");
        assert!(!id.is_empty());
    }

    #[test]
    fn only_harmless_ids_are_taken_over() {
        check(Some("abc-1.2_3"), true);
        check(None, false);
        check(Some(""), false);
        check(Some("a b"), false);
        check(Some("a\"b"), false);
        check(Some(&"x".repeat(65)), false);
    }
}
