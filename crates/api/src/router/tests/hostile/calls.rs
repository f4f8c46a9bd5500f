//! Every tool endpoint, how it is called, and what came of it.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use emergent_types::WorkspaceId;
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::super::ADMIN;

/// More than any answer here may have.
const MAX_ANSWER_BYTES: usize = 8 << 20;

/// A tool endpoint, called in one way.
pub(super) struct Call {
    pub(super) name: &'static str,
    method: &'static str,
    path: &'static str,
    header: Option<(&'static str, &'static str)>,
    body: &'static str,
    /// How long the agent may take, as the server sees it.
    pub(super) limit: Duration,
}

/// Every one that takes a request and answers.
pub(super) static CALLS: [Call; 21] = {
    const EVENTS: Option<(&str, &str)> = Some(("accept", "text/event-stream"));
    const COMMAND: &str = r#"{"command": "true", "timeout_ms": 1000}"#;
    const fn call(
        name: &'static str,
        (method, path): (&'static str, &'static str),
        header: Option<(&'static str, &'static str)>,
        body: &'static str,
        seconds: u64,
    ) -> Call {
        Call { name, method, path, header, body, limit: Duration::from_secs(seconds) }
    }
    [
        call("bash", ("POST", "bash"), None, COMMAND, 16),
        call("bash, streamed", ("POST", "bash"), EVENTS, COMMAND, 16),
        call("bash, background", ("POST", "bash"), None, r#"{"command": "true", "background": true}"#, 30),
        call("exec", ("POST", "exec"), None, COMMAND, 16),
        call("read", ("POST", "read"), None, r#"{"file_path": "x"}"#, 30),
        call("write", ("POST", "write"), None, r#"{"file_path": "x", "content": "y"}"#, 120),
        call("edit", ("POST", "edit"), None, r#"{"path": "x", "old_string": "a", "new_string": "b"}"#, 120),
        call("glob", ("POST", "glob"), None, r#"{"pattern": "*"}"#, 90),
        call("grep", ("POST", "grep"), None, r#"{"pattern": "x"}"#, 90),
        call("git", ("POST", "git"), None, r#"{"action": "status"}"#, 75),
        // Opening it, and then its first bytes.
        call("download", ("GET", "files?path=x"), None, "", 60),
        call("download, a part", ("GET", "files?path=x"), Some(("range", "bytes=5-9")), "", 90),
        // Looked at every five seconds.
        call("upload", ("PUT", "files?path=x"), Some(("content-length", "1")), "y", 130),
        call("processes", ("GET", "processes"), None, "", 30),
        // The list, and a page of each stream.
        call("process", ("GET", "processes/1"), None, "", 110),
        call("process, output", ("GET", "processes/1/output"), None, "", 40),
        call("process, signal", ("DELETE", "processes/1"), None, "", 30),
        call("watch", ("GET", "watch?path=x"), None, "", 30),
        call("terminal", ("GET", "terminal"), SOCKET, "", 30),
        call("tunnel", ("GET", "tunnel/80"), SOCKET, "", 30),
        call("tunnel, of another port", ("GET", "tunnel/65535"), SOCKET, "", 30),
    ]
};

/// What asks for a WebSocket, beside what always does.
const SOCKET: Option<(&str, &str)> = Some(("upgrade", "websocket"));

/// What came of a call.
#[derive(Debug)]
pub(super) enum Outcome {
    /// An error with a code, as an answer, as the last event or as the last message.
    Failed { code: String, text: String },
    /// An answer that is whole.
    Answered { status: u16, text: String },
    /// An answer that has begun and was broken off.
    CutOff,
}

impl Outcome {
    pub(super) fn code(&self) -> Option<&str> {
        match self {
            Self::Failed { code, .. } => Some(code),
            _ => None,
        }
    }

    /// Everything of it that a client gets to see.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Failed { text, .. } | Self::Answered { text, .. } => text,
            Self::CutOff => "",
        }
    }
}

impl Call {
    fn is_socket(&self) -> bool {
        self.header == SOCKET
    }

    pub(super) async fn make(&self, router: &Router, id: WorkspaceId) -> Outcome {
        let path = format!("/api/v1/agent/workspaces/{id}/{}", self.path);
        if self.is_socket() {
            return through_socket(router, &path).await;
        }
        let mut request = Request::builder()
            .method(self.method)
            .uri(path)
            .header("host", "localhost:8585")
            .header("authorization", format!("Bearer {ADMIN}"));
        if self.method == "POST" {
            request = request.header("content-type", "application/json");
        }
        if let Some((name, value)) = self.header {
            request = request.header(name, value);
        }
        let request = request.body(Body::from(self.body)).unwrap();
        let response = tower::ServiceExt::oneshot(router.clone(), request).await.unwrap();
        read(response).await
    }
}

async fn read(response: axum::response::Response) -> Outcome {
    let (parts, mut body) = response.into_parts();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Outcome::CutOff };
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
        assert!(bytes.len() < MAX_ANSWER_BYTES, "an answer that is too long");
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let code = match parts.status.is_success() {
        true => code_of_events(&parts.headers, &text),
        false => Some(super::super::code_of(&bytes)),
    };
    match code {
        Some(code) => Outcome::Failed { code, text },
        None => Outcome::Answered { status: parts.status.as_u16(), text },
    }
}

/// The code of the event in which a stream ended that failed.
fn code_of_events(headers: &HeaderMap, text: &str) -> Option<String> {
    let is_stream = headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
    let (_, last) = text.rsplit_once("event: error\ndata: ").filter(|_| is_stream)?;
    let error: Value = serde_json::from_str(last.lines().next()?).unwrap();
    error["code"].as_str().map(str::to_owned)
}

/// Asks for a WebSocket over a connection of its own, and takes everything that comes.
async fn through_socket(router: &Router, path: &str) -> Outcome {
    let (mut near, far) = tokio::io::duplex(64 << 10);
    let service = TowerToHyperService::new(router.clone());
    let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), service);
    let serving = tokio::spawn(serving.with_upgrades());
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost:8585\r\nauthorization: Bearer {ADMIN}\r\n\
         connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    near.write_all(head.as_bytes()).await.unwrap();
    // Nothing is said and the goodbye is not returned, so what is over is closed in the end.
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = near.read(&mut buffer).await.unwrap_or(0);
        bytes.extend_from_slice(&buffer[..count]);
        assert!(bytes.len() < MAX_ANSWER_BYTES, "an answer that is too long");
        // An answer that is no WebSocket leaves the connection open for the next request.
        let text = String::from_utf8_lossy(&bytes);
        let is_refused = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            !head.starts_with("HTTP/1.1 101") && serde_json::from_str::<Value>(body).is_ok()
        });
        // And a tunnel whose other end has ended waits for this one.
        if count == 0 || is_refused || text.contains("{\"end\":true}") {
            break;
        }
    }
    serving.abort();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let code = text.split_once("\"code\":\"").and_then(|(_, rest)| rest.split('"').next());
    match code {
        Some(code) => Outcome::Failed { code: code.to_owned(), text },
        // What the end of a tunnel says, which has no other words.
        None if text.contains("the connection in the sandbox was lost") => Outcome::CutOff,
        None => Outcome::Answered { status: 101, text },
    }
}
