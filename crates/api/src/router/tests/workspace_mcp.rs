//! MCP clients that work in a workspace, on a fake provider with a real agent.

use emergent_store::{SessionScope, TokenKind};
use serde_json::json;

use super::mcp::Host;
use super::*;

/// A workspace and somebody who speaks MCP to it.
struct Client<'a> {
    host: &'a Host,
    token: String,
    workspace: &'a str,
}

impl<'a> Client<'a> {
    fn new(host: &'a Host, token: &str, workspace: &'a str) -> Self {
        Self { host, token: token.to_owned(), workspace }
    }

    async fn send(&self, headers: &[(&str, &str)], message: &str) -> (u16, HeaderMap, Value) {
        let mut request = Request::builder()
            .method("POST")
            .uri(format!("/api/v1/agent/workspaces/{}/mcp", self.workspace))
            .header("host", "localhost:8585")
            .header("authorization", format!("Bearer {}", self.token))
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(message.to_owned())).unwrap();
        let (parts, body) = self.host.server.router.clone().oneshot(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        let is_events = parts
            .headers
            .get("content-type")
            .is_some_and(|media| media.as_bytes().starts_with(b"text/event"));
        let data =
            text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap_or_default();
        let answer = serde_json::from_str(if is_events { data } else { &text }).unwrap_or(Value::Null);
        (parts.status.as_u16(), parts.headers, answer)
    }

    /// A request of the older era.
    async fn ask(&self, method: &str, params: Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let (status, _, answer) =
            self.send(&[("mcp-protocol-version", "2025-06-18")], &message.to_string()).await;
        assert_eq!((status, &answer["id"]), (200, &json!(7)), "{answer}");
        answer
    }

    /// A request of the newer one.
    async fn ask_anew(&self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let message = json!({"jsonrpc": "2.0", "id": "x", "method": method, "params": params}).to_string();
        let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        if !name.is_empty() {
            headers.push(("mcp-name", &name));
        }
        let (status, _, answer) = self.send(&headers, &message).await;
        assert_eq!((status, &answer["id"]), (200, &json!("x")), "{answer}");
        answer
    }

    async fn tools(&self) -> Vec<String> {
        let listed = self.ask("tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await
    }
}

impl Host {
    async fn workspace(&self, token: &str) -> String {
        let (status, made) = self.request(token, "POST", "/api/v1/agent/workspaces", "{}").await;
        assert_eq!(status, 201, "{made}");
        made["id"].as_str().unwrap().to_owned()
    }

    async fn session_token(&self, workspace: &str, tools: &[&str]) -> String {
        let token = BearerToken::generate().unwrap();
        let session = SessionScope {
            workspace_id: workspace.parse().unwrap(),
            tools: Some(tools.iter().map(|tool| (*tool).to_owned()).collect()),
        };
        let row = ApiToken { session: Some(session), ..known(TokenKind::Session, &token) };
        self.insert_token(&row).await;
        token.expose().to_owned()
    }
}

#[tokio::test]
async fn clients_of_both_eras_work_in_a_workspace() {
    let host = Host::start().await;
    let workspace = host.workspace(ADMIN).await;
    let client = Client::new(&host, ADMIN, &workspace);
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let hello = client.ask("initialize", hello).await;
    assert_eq!(hello["result"]["protocolVersion"], "2025-06-18", "{hello}");
    assert_eq!(hello["result"]["serverInfo"]["name"], "emergent-workspace");
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(client.send(&[], initialized).await.0, 202);
    assert_eq!(client.tools().await, ["bash", "read", "write", "edit", "glob", "grep", "git"]);

    let written = client.call("write", json!({"file_path": "notes.txt", "content": "one\n"})).await;
    assert_eq!(written["result"]["isError"], false, "{written}");
    let ran = client.call("bash", json!({"command": "cat notes.txt; exit 3"})).await;
    let result = &ran["result"]["structuredContent"];
    assert_eq!((&result["stdout"], &result["exit_code"]), (&json!("one\n"), &json!(3)), "{ran}");
    let text = ran["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(&serde_json::from_str::<Value>(text).unwrap(), result, "the same for clients that read text");

    let discovered = client.ask_anew("server/discover", json!({})).await;
    assert!(
        discovered["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")),
        "{discovered}"
    );
    let edit = json!({"name": "edit", "arguments": {"file_path": "notes.txt", "old_string": "one", "new_string": "two"}});
    assert_eq!(client.ask_anew("tools/call", edit).await["result"]["resultType"], "complete");
    let read = json!({"name": "read", "arguments": {"file_path": "notes.txt"}});
    let read = client.ask_anew("tools/call", read).await;
    assert!(read["result"]["content"][0]["text"].as_str().unwrap().contains("two"), "{read}");
    host.end().await;
}

#[tokio::test]
async fn what_the_endpoints_refuse_is_refused_here_and_said() {
    let host = Host::start().await;
    let workspace = host.workspace(ADMIN).await;
    let client = Client::new(&host, ADMIN, &workspace);
    for (tool, arguments, expect) in [
        ("bash", json!({}), "command"),
        ("bash", json!({"command": "true", "nonsense": 1}), "nonsense"),
        ("bash", json!({"command": "true", "timeout_ms": 0}), "timeout_ms"),
        ("read", json!({"file_path": "missing"}), "file_not_found"),
    ] {
        let answer = client.call(tool, arguments).await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(text.contains(expect), "{text}");
    }
    assert_eq!(client.call("terminal", json!({})).await["error"]["code"], -32602);
    let nothing = Client::new(&host, ADMIN, "0199e6a4-0000-7000-8000-000000000000");
    assert_eq!(nothing.send(&[], "{}").await.0, 404);
    for (headers, message, status) in [
        ([("content-type", "text/plain")].as_slice(), "{}", 415),
        (&[], "not json", 415),
        (&[("mcp-protocol-version", "1999-01-01")], r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, 400),
    ] {
        let (found, headers, answer) = client.send(headers, message).await;
        assert!((400..500).contains(&found), "{found}, not {status}: {message}");
        assert!(
            answer["error"].is_object() && headers["content-type"] == "application/json",
            "{message}: {answer}"
        );
    }
    host.end().await;
}

#[tokio::test]
async fn a_tool_that_is_not_allowed_is_neither_listed_nor_called() {
    let host = Host::start().await;
    let workspace = host.workspace(ADMIN).await;
    let token = host.session_token(&workspace, &["read", "glob"]).await;
    let session = Client::new(&host, &token, &workspace);
    assert_eq!(session.tools().await, ["read", "glob"]);
    let refused = session.call("bash", json!({"command": "true"})).await;
    assert_eq!(refused["error"]["data"]["code"], "tool_not_allowed", "{refused}");
    assert!(session.call("glob", json!({"pattern": "*"})).await["result"].is_object());
    let reader = host.token(TokenKind::ReadOnly, None).await;
    let reader = Client::new(&host, &reader, &workspace);
    assert!(reader.tools().await.is_empty());
    assert_eq!(reader.call("read", json!({"file_path": "/"})).await["error"]["data"]["code"], "forbidden");
    let stranger = host.token(TokenKind::User, None).await;
    assert_eq!(Client::new(&host, &stranger, &workspace).send(&[], "{}").await.0, 404);
    host.end().await;
}
