//! MCP clients at the endpoints of hosted servers.

use axum::body::Body;
use axum::http::Request;
use emergent_store::TokenKind;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::ADMIN;
use super::http_program::HttpProgram;
use super::mcp::{Host, registration};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"first","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":7.0,"method":"tools/list"}"#;

/// A client of the older era, in a session of its own.
struct Client<'a> {
    host: &'a Host,
    token: String,
    path: &'static str,
    session: Option<String>,
}

impl<'a> Client<'a> {
    async fn connect(host: &'a Host, token: &str, path: &'static str) -> Self {
        let mut client = Self { host, token: token.to_owned(), path, session: None };
        let (status, session, answer) = client.send("POST", INITIALIZE).await;
        assert_eq!((status, &answer["id"]), (200, &json!("first")), "{answer}");
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
        client.session = session;
        client
    }

    async fn send(&self, method: &str, message: &str) -> (u16, Option<String>, Value) {
        let mut request = Request::builder()
            .method(method)
            .uri(self.path)
            .header("host", "localhost:8585")
            .header("authorization", format!("Bearer {}", self.token))
            .header("cookie", "session=of-a-browser")
            .header("x-forwarded-for", "203.0.113.7")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json");
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        let request = request.body(Body::from(message.to_owned())).unwrap();
        let (parts, body) = self.host.server.router.clone().oneshot(request).await.unwrap().into_parts();
        let session = parts.headers.get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status.as_u16(), session, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    async fn tools(&self) -> Vec<String> {
        let (status, _, answer) = self.send("POST", LIST).await;
        assert_eq!((status, &answer["id"]), (200, &json!(7.0)), "{answer}");
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    async fn call(&self, tool: &str) -> Value {
        let message =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}"}}}}"#);
        self.send("POST", &message).await.2
    }
}

#[tokio::test]
async fn a_client_talks_to_one_server() {
    let host = Host::start().await;
    assert_eq!(host.admin("POST", "", &registration("shell")).await.0, 201);
    let client = Client::connect(&host, ADMIN, "/api/v1/mcp/servers/shell/mcp").await;
    assert_eq!(client.tools().await, ["pid", "crash", "count"]);
    let before = client.call("pid").await["result"]["content"][0]["text"].clone();
    assert!(before.is_string());
    // The session outlives the program.
    assert!(client.call("crash").await["error"]["message"].as_str().unwrap().contains("exit code 7"));
    let after = client.call("pid").await["result"]["content"][0]["text"].clone();
    assert!(after.is_string() && after != before, "{before} {after}");
    // It belongs to who opened it.
    let other = host.token(TokenKind::User, Some(&["shell"])).await;
    let thief = Client { token: other, session: client.session.clone(), ..client };
    assert_eq!(thief.send("POST", LIST).await.0, 404);
    host.end().await;
}

#[tokio::test]
async fn lists_of_tools_hold_for_clients_and_change_while_they_are_connected() {
    let host = Host::start().await;
    assert_eq!(host.admin("POST", "", &registration("shell")).await.0, 201);
    let client = Client::connect(&host, ADMIN, "/api/v1/mcp/servers/shell/mcp").await;
    assert_eq!(host.admin("PATCH", "/shell", r#"{"tools_deny": ["crash"]}"#).await.0, 200);
    assert_eq!(client.tools().await, ["pid", "count"]);
    assert_eq!(client.call("crash").await["error"]["code"], -32602);
    assert!(client.call("pid").await["result"].is_object());
    host.end().await;
}

#[tokio::test]
async fn several_servers_are_one_to_a_client_that_may_use_them() {
    let host = Host::start().await;
    assert_eq!(host.admin("POST", "", &registration("granted")).await.0, 201);
    assert_eq!(host.admin("POST", "", &registration("other")).await.0, 201);
    let all = Client::connect(&host, ADMIN, "/api/v1/mcp").await;
    let mut tools = all.tools().await;
    tools.sort_unstable();
    let expected =
        ["granted__count", "granted__crash", "granted__pid", "other__count", "other__crash", "other__pid"];
    assert_eq!(tools, expected);
    let token = host.token(TokenKind::User, Some(&["granted"])).await;
    let some = Client::connect(&host, &token, "/api/v1/mcp").await;
    assert_eq!(some.tools().await, ["granted__pid", "granted__crash", "granted__count"]);
    assert!(some.call("granted__pid").await["result"].is_object());
    assert!(some.call("other__pid").await["error"].is_object());
    let none = Client::connect(&host, &host.token(TokenKind::User, None).await, "/api/v1/mcp").await;
    assert!(none.tools().await.is_empty());
    host.end().await;
}

#[tokio::test]
async fn who_may_not_use_a_server_finds_none() {
    let host = Host::start().await;
    assert_eq!(host.admin("POST", "", &registration("shell")).await.0, 201);
    let token = host.token(TokenKind::User, None).await;
    let client = Client { host: &host, token, path: "/api/v1/mcp/servers/shell/mcp", session: None };
    for method in ["POST", "GET", "DELETE"] {
        let (status, _, answer) = client.send(method, INITIALIZE).await;
        assert_eq!((status, &answer["error"]["code"]), (404, &json!("mcp_server_not_found")), "{method}");
    }
    host.end().await;
}

#[tokio::test]
async fn a_server_that_speaks_http_is_one_like_all_others_and_hears_nothing_of_its_clients() {
    let host = Host::start().await;
    let program = HttpProgram::listen(0).await;
    let registration = json!({
        "name": "http", "command": ["sleep", "1000"], "stdio_bridge": false, "port": program.port,
        "tools_deny": ["secret"],
    });
    let (status, made) = host.admin("POST", "", &registration.to_string()).await;
    assert_eq!(
        (status, &made["health"], &made["bridge"]["state"]),
        (201, &json!("ok"), &json!("ready")),
        "{made}"
    );
    let token = host.token(TokenKind::User, Some(&["http"])).await;
    let client = Client::connect(&host, &token, "/api/v1/mcp/servers/http/mcp").await;
    assert_eq!(client.tools().await, ["echo"]);
    assert_eq!(client.call("secret").await["error"]["code"], -32602);
    assert_eq!(client.call("echo").await["result"]["content"][0]["text"], "nothing");
    let all = Client::connect(&host, &token, "/api/v1/mcp").await;
    assert_eq!(all.tools().await, ["http__echo"]);
    let called = r#"{"method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hello"}}}"#;
    let (status, answer) = host.admin("POST", "/http/call", called).await;
    assert_eq!((status, &answer["result"]["content"][0]["text"]), (200, &json!("hello")), "{answer}");
    for (path, headers) in &*program.asked.lock().unwrap() {
        assert_eq!(path, "/mcp");
        for name in ["authorization", "cookie", "x-request-id", "x-forwarded-for"] {
            assert!(!headers.contains_key(name), "{name}");
        }
    }
    let stranger = host.token(TokenKind::User, None).await;
    let stranger =
        Client { host: &host, token: stranger, path: "/api/v1/mcp/servers/http/mcp", session: None };
    assert_eq!(stranger.send("POST", INITIALIZE).await.0, 404);
    host.end().await;
}

#[tokio::test]
async fn what_is_counted_at_bridges_can_be_scraped() {
    let host = Host::start().await;
    assert_eq!(host.admin("POST", "", &registration("counted")).await.0, 201);
    let (status, _, text) = host.server.send_as_admin("GET", "/metrics").await;
    let text = String::from_utf8(text.to_vec()).unwrap();
    let line = r#"emergent_mcp_bridge_total{server="counted",kind="late_answers"} 0"#;
    assert!(status.is_success() && text.contains(line), "{text}");
    host.end().await;
}

#[tokio::test]
async fn a_registration_is_made_once_under_a_key() {
    let host = Host::start().await;
    let send = async |body: String| {
        let request = Request::builder()
            .method("POST")
            .uri("/api/v1/mcp/servers")
            .header("host", "localhost:8585")
            .header("authorization", format!("Bearer {ADMIN}"))
            .header("content-type", "application/json")
            .header("idempotency-key", "once")
            .body(Body::from(body))
            .unwrap();
        let (parts, body) = host.server.router.clone().oneshot(request).await.unwrap().into_parts();
        let replayed = parts.headers.contains_key("idempotency-replayed");
        let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        (parts.status.as_u16(), replayed, body)
    };
    let (first, again) = (send(registration("shell")).await, send(registration("shell")).await);
    assert_eq!((first.0, first.1, again.0, again.1), (201, false, 201, true), "{again:?}");
    assert_eq!(first.2["id"], again.2["id"]);
    let other = send(registration("other")).await;
    assert_eq!((other.0, &other.2["error"]["code"]), (409, &json!("idempotency_conflict")), "{other:?}");
    host.end().await;
}
