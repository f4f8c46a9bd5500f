//! Hosted MCP servers over HTTP, on a fake provider that runs real programs.

use emergent_mcp_hosting::Service as Hosting;
use emergent_orchestrator::Orchestrator;
use emergent_provider::fake::FakeProvider;
use emergent_provider::{ImageDefaults, WorkspaceProvider};
use emergent_types::{IsolationLevel, ProviderKind};
use emergent_workspaces::Service;
use serde_json::json;

use super::*;

const SERVER: &str = include_str!("../../../../mcp-hosting/tests/hosting/server.sh");

/// The body of the founding design, as it is printed there, but for its comment.
const SEED_REGISTRATION: &str = r#"{
  "container_type": "mcp_server",
  "name": "langfuse-mcp",
  "image": "emergent/mcp-langfuse:latest",
  "provider": "gvisor",
  "lifecycle": "persistent",
  "stdio_bridge": true,
  "restart_policy": "always",
  "resource_limits": {
    "cpu": "0.5",
    "memory": "512M"
  },
  "environment": {
    "LANGFUSE_API_KEY": "..."
  }
}"#;

/// The call of the founding design, as it is printed there.
const SEED_CALL: &str = r#"{
  "method": "tools/call",
  "params": {
    "name": "get-traces",
    "arguments": {
      "project_id": "abc"
    }
  }
}"#;

pub(super) struct Host {
    pub(super) server: Server,
    store: Arc<dyn Store>,
    hosting: Hosting,
    workspaces: Service,
}

impl Host {
    pub(super) async fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let store = open_store(&folder).await;
        store
            .insert_token(&known(TokenKind::Admin, &BearerToken::from(ADMIN.to_owned())), None)
            .await
            .unwrap();
        let fake = FakeProvider::new(ProviderKind::Gvisor, IsolationLevel::Gvisor);
        // The image's own program is the one that is run where no command is given.
        fake.set_image(ImageDefaults {
            entrypoint: ["/bin/sh", "-c", SERVER].map(str::to_owned).to_vec(),
            command: vec!["server".to_owned(), String::new()],
            ..ImageDefaults::default()
        });
        let fake: Arc<dyn WorkspaceProvider> = Arc::new(fake);
        let orchestrator = Orchestrator::start(vec![fake]).await;
        let options = emergent_workspaces::Options::default();
        let workspaces = Service::start(options, Arc::clone(&store), orchestrator).await.unwrap();
        let options = emergent_mcp_hosting::Options::default();
        let hosting = Hosting::start(options, workspaces.handle()).await.unwrap();
        let server =
            Server::hosting(Arc::clone(&store), Some(workspaces.handle()), Some(hosting.handle()), folder);
        Self { server, store, hosting, workspaces }
    }

    pub(super) async fn token(&self, kind: TokenKind, mcp_servers: Option<&[&str]>) -> String {
        let token = BearerToken::generate().unwrap();
        let mcp_servers = mcp_servers.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let row = ApiToken { mcp_servers, ..known(kind, &token) };
        self.store.insert_token(&row, None).await.unwrap();
        token.expose().to_owned()
    }

    pub(super) async fn insert_token(&self, token: &ApiToken) {
        self.store.insert_token(token, None).await.unwrap();
    }

    async fn ask(&self, token: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
        self.request(token, method, &format!("/api/v1/mcp/servers{path}"), body).await
    }

    pub(super) async fn request(&self, token: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost:8585")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .body(Body::from(body.to_owned()))
            .unwrap();
        let (parts, body) = self.server.router.clone().oneshot(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status.as_u16(), serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    pub(super) async fn admin(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        self.ask(ADMIN, method, path, body).await
    }

    pub(super) async fn end(self) {
        self.hosting.shutdown().await;
        self.workspaces.shutdown(std::time::Duration::ZERO).await;
    }
}

fn code(answer: &Value) -> &str {
    answer["error"]["code"].as_str().unwrap_or_default()
}

/// Proves: DESIGN-5.6, DESIGN-5.8, DESIGN-10.12, DESIGN-10.13, DESIGN-10.14, DESIGN-10.15, DESIGN-10.16, DESIGN-10.17, DESIGN-10.19, DESIGN-10.22
#[tokio::test]
async fn the_founding_designs_requests_work_as_printed() {
    let host = Host::start().await;
    let (status, made) = host.admin("POST", "", SEED_REGISTRATION).await;
    assert_eq!(status, 201, "{made}");
    for (field, expect) in [
        ("name", json!("langfuse-mcp")),
        ("status", json!("ready")),
        ("container_type", json!("mcp_server")),
        ("lifecycle", json!("persistent")),
        ("expires_at", json!(null)),
        ("provider", json!("gvisor")),
        ("image", json!("emergent/mcp-langfuse:latest")),
        ("restart_policy", json!("always")),
        ("stdio_bridge", json!(true)),
        ("mode", json!("shared")),
        ("health", json!("ok")),
        ("restart_count", json!(0)),
        ("call_timeout_ms", json!(30_000)),
        ("environment_names", json!(["LANGFUSE_API_KEY"])),
        ("resource_limits", json!({"cpu": "0.5", "memory": "512M", "disk": "1G"})),
    ] {
        assert_eq!(made[field], expect, "{field}");
    }
    let id = made["id"].as_str().unwrap();
    for name in ["langfuse-mcp", id] {
        let (status, answer) = host.admin("POST", &format!("/{name}/call"), SEED_CALL).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer, json!({"result": null, "error": {"code": -32602, "message": "no such tool"}}));
        let (status, got) = host.admin("GET", &format!("/{name}"), "").await;
        assert_eq!((status, &got["id"]), (200, &json!(id)));
    }
    let (_, list) = host.admin("GET", "", "").await;
    assert_eq!((&list["items"][0]["id"], &list["next_cursor"]), (&json!(id), &json!(null)));
    let call = r#"{"method": "tools/call", "params": {"name":"pid", "arguments": {"n": 1.0}}}"#;
    let (_, before) = host.admin("POST", "/langfuse-mcp/call", call).await;
    assert_eq!(before["error"], json!(null));
    let (status, restarted) = host.admin("POST", "/langfuse-mcp/restart", "").await;
    assert_eq!((status, &restarted["health"]), (200, &json!("ok")));
    let (_, after) = host.admin("POST", "/langfuse-mcp/call", call).await;
    assert_ne!(before["result"], after["result"], "another process");
    let (status, conflict) = host.admin("POST", "", SEED_REGISTRATION).await;
    assert_eq!((status, code(&conflict)), (409, "mcp_server_exists"));
    let (status, deleted) = host.admin("DELETE", "/langfuse-mcp", "").await;
    assert_eq!((status, &deleted["status"]), (200, &json!("deleted")));
    assert_eq!(host.admin("GET", "/langfuse-mcp", "").await.0, 404);
    host.end().await;
}

pub(super) fn registration(name: &str) -> String {
    json!({"name": name, "command": ["/bin/sh", "-c", SERVER, "server", ""], "environment": {"SECRET": "xyzzy"}})
        .to_string()
}

#[tokio::test]
async fn every_wrong_field_is_named_and_secrets_are_not_shown() {
    let host = Host::start().await;
    let wrong = r#"{"name": "A", "mode": "both", "call_timeout_ms": 0, "environment": {"": "x"}}"#;
    let (status, refused) = host.admin("POST", "", wrong).await;
    assert_eq!((status, code(&refused)), (400, "invalid_request"));
    let fields: Vec<_> = refused["error"]["details"]["fields"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["call_timeout_ms", "command", "environment.", "mode", "name"]);
    let (status, refused) = host.admin("POST", "", r#"{"name": "a", "gpu": 1}"#).await;
    assert_eq!((status, &refused["error"]["details"]["field"]), (400, &json!("gpu")));

    let (status, made) = host.admin("POST", "", &registration("shell")).await;
    assert_eq!(status, 201, "{made}");
    let env = r#"{"method": "tools/call", "params": {"name":"env"}}"#;
    let (_, answer) = host.admin("POST", "/shell/call", env).await;
    assert_eq!(answer["result"]["content"][0]["text"], "xyzzy", "its program has it");
    for (method, path, body) in [
        ("GET", "", ""),
        ("GET", "/shell", ""),
        ("PATCH", "/shell", r#"{"serialize": true}"#),
        ("POST", "/shell/restart", ""),
    ] {
        let (status, shown) = host.admin(method, path, body).await;
        assert_eq!(status, 200, "{method} {path}: {shown}");
        assert!(!shown.to_string().contains("xyzzy"), "{method} {path}");
    }
    let (status, refused) = host.admin("PATCH", "/shell", r#"{"image": "other"}"#).await;
    assert_eq!((status, &refused["error"]["details"]["field"]), (400, &json!("image")));
    host.end().await;
}

#[tokio::test]
async fn a_server_is_seen_and_called_by_those_who_were_granted_it() {
    let host = Host::start().await;
    assert_eq!(host.admin("POST", "", &registration("granted")).await.0, 201);
    assert_eq!(host.admin("POST", "", &registration("other")).await.0, 201);
    let list = r#"{"method": "tools/list"}"#;
    for kind in [TokenKind::User, TokenKind::E2b, TokenKind::Session, TokenKind::ReadOnly] {
        let granted = (kind != TokenKind::ReadOnly).then_some(&["granted"][..]);
        let (with, without) = (host.token(kind, granted).await, host.token(kind, None).await);
        let names = |answer: Value| -> Vec<Value> {
            answer["items"].as_array().unwrap().iter().map(|item| item["name"].clone()).collect()
        };
        let seen = names(host.ask(&with, "GET", "", "").await.1);
        if kind == TokenKind::ReadOnly {
            assert_eq!(seen, ["granted", "other"]);
            assert_eq!(host.ask(&with, "POST", "/granted/call", list).await.0, 403);
            continue;
        }
        assert_eq!(seen, ["granted"], "{kind}");
        assert!(names(host.ask(&without, "GET", "", "").await.1).is_empty(), "{kind}");
        assert_eq!(host.ask(&with, "POST", "/granted/call", list).await.0, 200, "{kind}");
        for (token, server) in [(&with, "other"), (&without, "granted"), (&with, "missing")] {
            for (method, path, body) in [("GET", "", ""), ("POST", "/call", list)] {
                let (status, refused) = host.ask(token, method, &format!("/{server}{path}"), body).await;
                assert_eq!((status, code(&refused)), (404, "mcp_server_not_found"), "{kind} {server}");
            }
        }
        for (method, path) in [
            ("POST", ""),
            ("PATCH", "/granted"),
            ("DELETE", "/granted"),
            ("POST", "/granted/restart"),
            ("GET", "/granted/logs"),
        ] {
            assert_eq!(host.ask(&with, method, path, "{}").await.0, 403, "{kind} {method} {path}");
        }
    }
    host.end().await;
}

#[tokio::test]
async fn a_call_without_an_answer_says_why() {
    let host = Host::start().await;
    assert_eq!(host.admin("POST", "", &registration("shell")).await.0, 201);
    let call =
        r#"{"method": "tools/call", "params": {"name":"crash", "arguments": {"password": "hunter2"}}}"#;
    let (status, failed) = host.admin("POST", "/shell/call", call).await;
    assert_eq!((status, code(&failed)), (502, "mcp_server_ended"), "{failed}");
    assert!(failed["error"]["message"].as_str().unwrap().contains("exit code 7"), "{failed}");
    assert_eq!(failed["error"]["details"]["sent"], true);
    let (status, tools) = host.admin("POST", "/shell/call", r#"{"method": "tools/list"}"#).await;
    assert_eq!(status, 200, "it is back: {tools}");
    let slow = r#"{"method": "tools/call", "params": {"name":"hang"}, "timeout_ms": 200}"#;
    let (status, late) = host.admin("POST", "/shell/call", slow).await;
    assert_eq!((status, code(&late)), (504, "timeout"), "{late}");
    host.end().await;
}

#[tokio::test]
async fn logs_are_lines_with_numbers() {
    let host = Host::start().await;
    assert_eq!(host.admin("POST", "", &registration("shell")).await.0, 201);
    let (status, page) = host.admin("GET", "/shell/logs", "").await;
    assert_eq!(status, 200);
    let lines = page["lines"].as_array().unwrap();
    assert!(lines.iter().any(|line| line["stream"] == "stderr"), "{page}");
    let last = lines.last().unwrap()["number"].as_u64().unwrap();
    let (_, page) = host.admin("GET", &format!("/shell/logs?after={last}"), "").await;
    assert_eq!(page["lines"], json!([]));
    assert_eq!(host.admin("GET", "/shell/logs?limit=0", "").await.0, 400);
    host.end().await;
}

#[tokio::test]
async fn a_servers_sandbox_is_not_managed_like_a_workspace() {
    let host = Host::start().await;
    let (_, made) = host.admin("POST", "", &registration("shell")).await;
    let id = made["id"].as_str().unwrap();
    for (method, rest) in [("DELETE", ""), ("POST", "/stop"), ("POST", "/fork"), ("POST", "/attach")] {
        let path = format!("/api/v1/agent/workspaces/{id}{rest}");
        let headers = [("authorization", &*format!("Bearer {ADMIN}"))];
        let (status, _, body) = host.server.send(method, &path, &headers).await;
        assert_eq!((status.as_u16(), code_of(&body).as_str()), (409, "is_mcp_server"), "{method} {path}");
    }
    host.end().await;
}
