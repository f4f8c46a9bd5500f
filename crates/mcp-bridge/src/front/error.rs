use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

use super::body::FrontBody;
use super::connector::OpenError;
use crate::era::{LEGACY, MODERN, UNSUPPORTED_VERSION};
use crate::json::{Malformed, RawJson, pick, quoted};

pub(super) const HEADER_MISMATCH: i64 = -32020;
const TRANSPORT: i64 = -32000;

/// Why a request goes no further, as HTTP and as JSON-RPC say it.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    code: i64,
    text: String,
    /// JSON.
    data: Option<String>,
    /// JSON: the id of the request, if one could be read.
    id: Option<String>,
    allow: Option<&'static str>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: i64, text: impl Into<String>) -> Self {
        Self { status, code, text: text.into(), data: None, id: None, allow: None }
    }

    fn transport(status: StatusCode, text: &str) -> Self {
        Self::new(status, TRANSPORT, text)
    }

    /// Names the request that is refused.
    pub(super) fn about(mut self, message: &RawJson) -> Self {
        let id = pick(message.as_str(), ["id"]).ok().and_then(|[id]| id);
        self.id = id.map(str::to_owned);
        self
    }

    pub(super) fn malformed(malformed: Malformed) -> Self {
        Self::new(StatusCode::BAD_REQUEST, malformed.code(), malformed.to_string())
    }

    pub(super) fn method(allow: &'static str) -> Self {
        let refusal = Self::transport(StatusCode::METHOD_NOT_ALLOWED, "this HTTP method is not allowed here");
        Self { allow: Some(allow), ..refusal }
    }

    pub(super) fn forbidden(what: &str) -> Self {
        Self::transport(StatusCode::FORBIDDEN, &format!("the {what} is not allowed"))
    }

    pub(super) fn not_acceptable(wanted: &str) -> Self {
        Self::transport(StatusCode::NOT_ACCEPTABLE, &format!("the client must accept {wanted}"))
    }

    pub(super) fn media_type() -> Self {
        Self::transport(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the content type must be application/json")
    }

    pub(super) fn too_large(limit: usize) -> Self {
        Self::transport(StatusCode::PAYLOAD_TOO_LARGE, &format!("the body is larger than {limit} bytes"))
    }

    pub(super) fn header(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, HEADER_MISMATCH, text)
    }

    pub(super) fn params(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, -32602, text)
    }

    pub(super) fn version(asked: &str) -> Self {
        let text = format!("the protocol version {asked:?} is not supported");
        let data = format!(r#"{{"supported":["{MODERN}"],"requested":{}}}"#, quoted(asked));
        let refusal = Self::new(StatusCode::BAD_REQUEST, UNSUPPORTED_VERSION, text);
        Self { data: Some(data), ..refusal }
    }

    pub(super) fn legacy_version(asked: &str) -> Self {
        let text = format!("the protocol version {asked:?} is not supported; {} are", LEGACY.join(", "));
        Self::transport(StatusCode::BAD_REQUEST, &text)
    }

    pub(super) fn closed() -> Self {
        Self::transport(StatusCode::SERVICE_UNAVAILABLE, "this endpoint is closed")
    }

    pub(super) fn no_session_named() -> Self {
        Self::transport(StatusCode::BAD_REQUEST, "the header Mcp-Session-Id is missing")
    }

    pub(super) fn no_such_session() -> Self {
        Self::new(StatusCode::NOT_FOUND, -32001, "there is no such session")
    }

    pub(super) fn no_such_event() -> Self {
        Self::transport(StatusCode::BAD_REQUEST, "the stream of this event is not kept any more")
    }

    pub(super) fn too_many(what: &str) -> Self {
        Self::transport(StatusCode::TOO_MANY_REQUESTS, &format!("there are too many {what}"))
    }

    pub(super) fn no_room() -> Self {
        Self::transport(StatusCode::SERVICE_UNAVAILABLE, "there are too many sessions")
    }

    pub(super) fn into_response(self) -> Response<FrontBody> {
        let id = self.id.as_deref().unwrap_or("null");
        let data = self.data.map(|data| format!(r#","data":{data}"#)).unwrap_or_default();
        let (code, text) = (self.code, quoted(&self.text));
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{text}{data}}}}}"#);
        let mut response = Response::new(FrontBody::whole(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        if matches!(self.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}

impl From<OpenError> for Refusal {
    fn from(error: OpenError) -> Self {
        Self::transport(StatusCode::SERVICE_UNAVAILABLE, &error.to_string())
    }
}
