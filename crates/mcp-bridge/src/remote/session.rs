use http::{HeaderMap, HeaderName, HeaderValue};

use crate::json::{RawJson, pick, text_of};

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The session of the older era.
#[derive(Debug, Default)]
pub(super) struct HttpSession {
    /// `None` for a server without sessions, and before there is one.
    pub(super) id: Option<HeaderValue>,
    /// The version that was agreed on; `None` before, and in the newer era.
    pub(super) version: Option<HeaderValue>,
}

impl HttpSession {
    /// Whether hands were shaken in the way of the older era.
    pub(super) fn is_open(&self) -> bool {
        self.version.is_some()
    }

    /// The server begins one: its answer to `initialize` has these headers.
    pub(super) fn begin(&mut self, headers: &HeaderMap) {
        *self = Self { id: headers.get(SESSION).cloned(), version: None };
    }

    /// It is agreed what is spoken, if this is the result that says so.
    pub(super) fn agree(&mut self, answer: &RawJson) {
        let version = pick(answer.as_str(), ["result"])
            .ok()
            .and_then(|[result]| pick(result?, ["protocolVersion"]).ok()?[0])
            .and_then(text_of);
        self.version = version.and_then(|version| HeaderValue::try_from(version).ok());
    }
}
