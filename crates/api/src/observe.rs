//! A span and an id for every request, and a log line for those that failed.

use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request};
use axum::http::{Extensions, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use emergent_types::WorkspaceId;
use tracing::{Instrument, field};
use uuid::Uuid;

use crate::auth::Caller;
use crate::errors::{ErrorCode, ErrorTrace};
use crate::metrics::names;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The route of what has none.
pub(crate) const NO_ROUTE: &str = "none";

/// Asked for all the time by machines; nothing to read about unless it fails.
const QUIET_ROUTES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// The longest id of a client's own that is taken over.
const MAX_ID_LENGTH: usize = 64;

/// The id of a request, among its extensions.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(HeaderValue);

impl RequestId {
    /// The id among these.
    pub(crate) fn of(extensions: &Extensions) -> String {
        let id = extensions.get::<Self>().and_then(|id| id.0.to_str().ok());
        id.unwrap_or("unknown").to_owned()
    }

    /// Names a request in its headers as among its extensions, for who sees nothing but those.
    pub(crate) fn name<B>(request: &mut axum::http::Request<B>) {
        if let Some(Self(id)) = request.extensions().get().cloned() {
            request.headers_mut().insert(REQUEST_ID, id);
        }
    }
}

/// Gives the request an id, which the answer and every log line on the way carry, and logs one
/// line about it.
///
/// Neither headers nor bodies nor the query nor the path are logged: they hold tokens, and what
/// people work on. The route says which endpoint it was, and the id of a workspace is no secret.
pub(crate) async fn observe(mut request: Request, next: Next) -> Response {
    let id = request_id(&request);
    request.extensions_mut().insert(RequestId(id.clone()));
    let route =
        request.extensions().get::<MatchedPath>().map(MatchedPath::as_str).unwrap_or(NO_ROUTE).to_owned();
    let method = known_method(request.method());
    let workspace = workspace_of(request.uri().path());
    let span = tracing::info_span!(
        "request",
        id = id.to_str().unwrap_or_default(),
        method,
        route,
        workspace = workspace.map(field::display),
    );
    async move {
        let started = Instant::now();
        let mut response = next.run(request).await;
        response.headers_mut().insert(REQUEST_ID, id);
        note(&response, started.elapsed(), method, route);
        response
    }
    .instrument(span)
    .await
}

/// Counts and logs an answer. Bodies that come later are not waited for.
fn note(response: &Response, elapsed: Duration, method: &'static str, route: String) {
    let status = response.status();
    let quiet = QUIET_ROUTES.contains(&route.as_str()) && status.is_success();
    metrics::counter!(
        names::REQUESTS,
        "method" => method,
        "route" => route.clone(),
        "status" => status.as_u16().to_string(),
    )
    .increment(1);
    metrics::histogram!(names::REQUEST_SECONDS, "route" => route).record(elapsed.as_secs_f64());
    let duration_us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
    let caller = response.extensions().get::<Caller>().map(|caller| field::display(caller.id()));
    let code = status.as_u16();
    match response.extensions().get::<ErrorTrace>() {
        // Whoever is in a sandbox could otherwise fill the log with errors that are none of the server's.
        Some(ErrorTrace { code: error, cause }) if error.can_be_caused_by_a_guest() => {
            let (error, cause) = (error.as_str(), cause.as_deref().unwrap_or("unknown"));
            tracing::warn!(
                status = code,
                caller,
                code = error,
                cause,
                duration_us,
                "request failed in the sandbox: {error}: {cause}"
            );
        }
        Some(ErrorTrace { code: error, cause })
            if status.is_server_error() && *error != ErrorCode::NoSpace =>
        {
            let (error, cause) = (error.as_str(), cause.as_deref().unwrap_or("unknown"));
            tracing::error!(
                status = code,
                caller,
                code = error,
                cause,
                duration_us,
                "request failed: {error}: {cause}"
            );
        }
        Some(ErrorTrace { code: error, .. }) => {
            let error = error.as_str();
            tracing::info!(status = code, caller, code = error, duration_us, "request refused: {error}");
        }
        None if quiet => tracing::debug!(status = code, duration_us, "request answered"),
        None => tracing::info!(status = code, caller, duration_us, "request answered"),
    }
}

/// A method's name, as long as it is one that means something.
fn known_method(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}

/// The workspace that a path is about.
fn workspace_of(path: &str) -> Option<WorkspaceId> {
    path.strip_prefix("/api/v1/agent/workspaces/")?.split('/').next()?.parse().ok()
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
