//! The head of every request: what both eras want to be said outside of a message.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use serde_json::Value;

use super::Remote;
use super::body::whole;
use super::events::Events;
use super::session::SESSION;
use crate::era::{CAPABILITIES_KEY, VERSION_KEY, named_version};
use crate::front::marked::{Marked, marked_by};
use crate::json::{Kind, Message, RawJson, quoted, text_of};
use crate::session::lock;

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

const MOST_PAGES: usize = 64;

type ByTool = HashMap<String, Vec<Marked>>;

/// Which arguments of which tools have to be repeated in headers; `None` before it is known.
#[derive(Default)]
pub(super) struct Marks(Mutex<Option<Arc<ByTool>>>);

impl Marks {
    /// Learns from the answer to `tools/list`.
    pub(super) fn learn(&self, answer: &RawJson) {
        let Ok(answer) = serde_json::from_str::<Value>(answer.as_str()) else { return };
        let mut known = lock(&self.0);
        let mut all = known.take().map(Arc::unwrap_or_clone).unwrap_or_default();
        all.extend(tools_of(&answer));
        *known = Some(Arc::new(all));
    }

    fn known(&self) -> Option<Arc<ByTool>> {
        lock(&self.0).clone()
    }
}

fn tools_of(answer: &Value) -> ByTool {
    let tools = answer["result"]["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let named = |tool: &Value| Some((tool["name"].as_str()?.to_owned(), marked_by(&tool["inputSchema"])));
    tools.iter().filter_map(named).collect()
}

/// The request that carries a message.
pub(super) async fn post(remote: &Remote, message: &Message) -> Request<Bytes> {
    let mut request = Request::new(message.text.clone().into_bytes());
    *request.method_mut() = Method::POST;
    let modern = named_version(message).ok().flatten();
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(ACCEPT, BOTH);
    match (modern, &message.kind) {
        (Some(version), Kind::Request { method, .. }) => {
            insert(headers, VERSION, &version);
            insert(headers, METHOD, method);
            let name = match method.as_str() {
                "tools/call" | "prompts/get" => message.param("name"),
                "resources/read" => message.param("uri"),
                _ => None,
            };
            if let Some(name) = name.and_then(text_of) {
                insert(headers, NAME, &name);
                if method == "tools/call" {
                    repeat(remote, &version, &name, message, headers).await;
                }
            }
        }
        // A server that begins a session does not want to hear of another.
        (None, Kind::Request { method, .. }) if method == "initialize" => {}
        _ => in_session(remote, headers),
    }
    request
}

/// A request without a message.
pub(super) fn without_body(remote: &Remote, method: &Method) -> Request<Bytes> {
    let mut request = Request::new(Bytes::new());
    *request.method_mut() = method.clone();
    request.headers_mut().insert(ACCEPT, EVENTS);
    in_session(remote, request.headers_mut());
    request
}

/// A request for the rest of a stream that broke.
pub(super) fn resume(remote: &Remote, place: &str) -> Request<Bytes> {
    let mut request = without_body(remote, &Method::GET);
    if let Ok(place) = HeaderValue::try_from(place) {
        request.headers_mut().insert(LAST_EVENT, place);
    }
    request
}

fn in_session(remote: &Remote, headers: &mut HeaderMap) {
    let session = lock(&remote.session);
    if let Some(id) = &session.id {
        headers.insert(SESSION, id.clone());
    }
    if let Some(version) = &session.version {
        headers.insert(VERSION, version.clone());
    }
}

/// Repeats arguments of a call as the tool's schema wants it.
async fn repeat(remote: &Remote, version: &str, tool: &str, call: &Message, headers: &mut HeaderMap) {
    let known = match remote.marks.known().filter(|known| known.contains_key(tool)) {
        Some(known) => known,
        None => {
            ask(remote, version).await;
            remote.marks.known().unwrap_or_default()
        }
    };
    let Some(marked) = known.get(tool).filter(|marked| !marked.is_empty()) else { return };
    let arguments: Value =
        call.param("arguments").and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default();
    for Marked { path, header } in marked {
        let argument = path.iter().try_fold(&arguments, |value, name| value.get(name));
        match argument {
            Some(Value::String(text)) => insert(headers, header.clone(), text),
            Some(other @ (Value::Bool(_) | Value::Number(_))) => {
                insert(headers, header.clone(), &other.to_string());
            }
            _ => {}
        }
    }
}

/// Asks which tools there are, for their schemas. A server that does not say is called without.
async fn ask(remote: &Remote, version: &str) {
    let mut cursor: Option<String> = None;
    for _ in 0..MOST_PAGES {
        let more = cursor.map(|cursor| format!(r#","cursor":{}"#, quoted(&cursor))).unwrap_or_default();
        let version_text = quoted(version);
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":"schemas","method":"tools/list","params":{{"_meta":{{"{VERSION_KEY}":{version_text},"{CAPABILITIES_KEY}":{{}}}}{more}}}}}"#
        );
        let mut request = Request::new(Bytes::from(text));
        *request.method_mut() = Method::POST;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(ACCEPT, BOTH);
        insert(headers, VERSION, version);
        insert(headers, METHOD, "tools/list");
        let Ok(Some(page)) = tokio::time::timeout(super::NOTICE_LIMIT, answer(remote, request)).await else {
            return;
        };
        remote.marks.learn(&page);
        let page: Value = serde_json::from_str(page.as_str()).unwrap_or_default();
        cursor = page["result"]["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return;
        }
    }
}

async fn answer(remote: &Remote, request: Request<Bytes>) -> Option<RawJson> {
    let response = remote.endpoint.send(request).await.ok()?;
    let longest = remote.options.max_message_bytes;
    match super::body::Media::of(response.headers()) {
        super::body::Media::Json => whole(response.into_body(), longest).await.ok().map(RawJson::known),
        super::body::Media::Events => {
            let mut events = Events::new(response.into_body(), longest);
            while let Ok(Some(event)) = events.next().await {
                if event.data.contains("\"result\"") {
                    return Some(RawJson::known(event.data));
                }
            }
            None
        }
        super::body::Media::Other => None,
    }
}

/// A text as the newer era writes it in a header: as it is, or as Base64 where that would be misread.
fn insert(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && text.trim() == text
        && !text.starts_with("=?base64?");
    let value = match plain {
        true => HeaderValue::try_from(text),
        false => {
            let encoded = base64::engine::general_purpose::STANDARD.encode(text);
            HeaderValue::try_from(format!("=?base64?{encoded}?="))
        }
    };
    if let Ok(value) = value {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_stand_in_a_header_is_encoded() {
        let mut headers = HeaderMap::new();
        for (text, expect) in
            [("plain name", "plain name"), ("grün", "=?base64?Z3LDvG4=?="), (" x", "=?base64?IHg=?=")]
        {
            insert(&mut headers, NAME, text);
            assert_eq!(headers[NAME], expect);
        }
    }
}
