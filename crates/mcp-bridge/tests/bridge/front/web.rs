//! A client of a front.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use emergent_mcp_bridge::front::{Front, FrontBody, FrontOptions, Principal};
use emergent_mcp_bridge::{Ended, Options};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{Fake, echo, legacy, modern};

pub(crate) const BOTH: &str = "application/json, text/event-stream";
pub(crate) const MODERN: &str = "2026-07-28";
pub(crate) const TAG: &str = "io.modelcontextprotocol/subscriptionId";

/// Somebody who asks, in a session or not.
#[derive(Clone)]
pub(crate) struct Web {
    pub(crate) front: Front,
    pub(crate) principal: Principal,
    pub(crate) session: Option<String>,
}

/// A response whose body is still to be read.
pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: FrontBody,
}

/// The events of a body.
pub(crate) struct Events {
    body: FrontBody,
    text: String,
    ready: VecDeque<Event>,
    pub(crate) comments: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    /// Null for an event without data.
    pub(crate) data: Value,
}

impl Web {
    pub(crate) fn new(front: &Front, principal: &str) -> Self {
        Self { front: front.clone(), principal: Principal::new(principal), session: None }
    }

    pub(crate) async fn send(&self, method: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Got {
        let mut request = Request::builder().method(method).uri("/mcp");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        let response = self.front.serve(self.principal.clone(), request.body(body.into()).unwrap()).await;
        let (head, body) = response.into_parts();
        Got { status: head.status, headers: head.headers, body }
    }

    pub(crate) async fn post(&self, body: &Value) -> Got {
        self.send("POST", &[("accept", BOTH), ("content-type", "application/json")], body.to_string()).await
    }

    /// Opens the stream for what belongs to no call, or resumes one.
    pub(crate) async fn get(&self, last: Option<&str>) -> Got {
        let mut headers = vec![("accept", "text/event-stream")];
        headers.extend(last.map(|last| ("last-event-id", last)));
        self.send("GET", &headers, "").await
    }

    /// A session. The server must answer by itself, or have shaken hands.
    pub(crate) async fn introduced(front: &Front, principal: &str, version: &str) -> Self {
        let mut web = Self::new(front, principal);
        web.introduce(version).await;
        web
    }

    pub(crate) async fn introduce(&mut self, version: &str) -> Value {
        let capabilities = json!({"sampling": {}, "elicitation": {}, "roots": {}});
        let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}});
        let got =
            self.post(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await;
        assert_eq!(got.status, StatusCode::OK);
        self.session = Some(got.headers["mcp-session-id"].to_str().unwrap().to_owned());
        let answer = got.answer().await;
        let told = self.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        assert_eq!(told.status, StatusCode::ACCEPTED);
        answer
    }

    pub(crate) async fn call(&self, id: Value, tool: &str, arguments: Value) -> Got {
        self.post(&call(id, tool, arguments)).await
    }

    /// A request of the newer era with the headers it needs.
    pub(crate) async fn modern(&self, id: Value, method: &str, params: Value) -> Got {
        let body = modern_body(id, method, params);
        let name = body["params"].get("name").or(body["params"].get("uri")).and_then(Value::as_str);
        let mut headers = vec![
            ("accept", BOTH),
            ("content-type", "application/json"),
            ("mcp-protocol-version", MODERN),
            ("mcp-method", method),
        ];
        headers.extend(name.map(|name| ("mcp-name", name)));
        self.send("POST", &headers, body.to_string()).await
    }
}

pub(crate) fn call(id: Value, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

pub(crate) fn modern_body(id: Value, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

impl Got {
    pub(crate) fn events(self) -> Events {
        assert_eq!(self.headers["content-type"], "text/event-stream", "{}", self.status);
        assert_eq!(self.headers["x-accel-buffering"], "no");
        Events { body: self.body, text: String::new(), ready: VecDeque::new(), comments: 0 }
    }

    pub(crate) async fn json(self) -> Value {
        let bytes = self.body.collect().await.unwrap().to_bytes();
        serde_json::from_slice(&bytes).unwrap_or_else(|_| panic!("{} {bytes:?}", self.status))
    }

    /// The answer, however it comes.
    pub(crate) async fn answer(self) -> Value {
        if !self.body.is_events() {
            return self.json().await;
        }
        let mut events = self.events();
        loop {
            let event = events.next().await.expect("the stream ended without an answer");
            if event.data.get("result").is_some() || event.data.get("error").is_some() {
                return event.data;
            }
        }
    }
}

impl Events {
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let frame = tokio::time::timeout(Duration::from_secs(3000), self.body.frame()).await;
            let data = frame.expect("nothing came")?.unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&data).unwrap());
            while let Some((one, rest)) = self.text.split_once("\n\n") {
                let (mut id, mut data) = (None, None);
                for line in one.lines() {
                    match line.split_once(':') {
                        Some(("", _)) => self.comments += 1,
                        Some(("id", value)) => id = Some(value.trim().to_owned()),
                        Some(("data", value)) => data = Some(value.trim().to_owned()),
                        _ => {}
                    }
                }
                if let Some(data) = data {
                    let data =
                        if data.is_empty() { Value::Null } else { serde_json::from_str(&data).unwrap() };
                    self.ready.push_back(Event { id, data });
                }
                self.text = rest.to_owned();
            }
        }
    }

    pub(crate) async fn data(&mut self) -> Value {
        self.next().await.expect("the stream ended").data
    }

    /// Nothing comes within this time.
    pub(crate) async fn silence(&mut self, ms: u64) {
        let next = tokio::time::timeout(Duration::from_millis(ms), self.next()).await;
        assert!(next.is_err(), "{next:?}");
    }
}

/// A front on a server that answers each call with its arguments.
pub(crate) fn echoing(options: FrontOptions) -> (Front, JoinHandle<Ended>) {
    let (handle, ended) = echo(Options::default());
    (Front::new(Arc::new(handle), options), ended)
}

/// A front on a scripted legacy server.
pub(crate) async fn scripted(options: FrontOptions) -> (Front, Fake, JoinHandle<Ended>) {
    let (handle, fake, ended) = legacy(Options::default()).await;
    (Front::new(Arc::new(handle), options), fake, ended)
}

/// A front on a scripted server of the newer era.
pub(crate) async fn scripted_modern(options: FrontOptions) -> (Front, Fake, JoinHandle<Ended>) {
    let (handle, fake, ended) = modern(Options::default()).await;
    (Front::new(Arc::new(handle), options), fake, ended)
}

/// So that whatever has something to do does it.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
}
