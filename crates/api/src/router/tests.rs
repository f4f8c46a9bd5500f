//! What holds for every endpoint, seen from outside, without workspaces; [`matrix`] has them, and [`hostile`] some that are not
//! what they should be.

mod hostile;
#[expect(dead_code, reason = "what it can do besides is for the tests of whoever hosts it")]
#[path = "../../../mcp-hosting/tests/hosting/http_program.rs"]
mod http_program;
mod load;
mod matrix;
mod mcp;
mod mcp_clients;
mod provider_list;
mod workspace_mcp;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use emergent_store::sqlite::SqliteStore;
use emergent_store::{ApiToken, SecretKey, Store, TokenId, TokenKind, Vault};
use emergent_workspaces::Handle;
use http_body_util::BodyExt;
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;

use super::*;
use crate::BearerToken;

/// The contract. Adding a row is a decision; changing one breaks clients.
const ENDPOINTS: &[(&str, &str)] = &[
    ("DELETE", "/api/v1/agent/snapshots/{snapshot_id}"),
    ("DELETE", "/api/v1/agent/workspaces/{id}"),
    ("DELETE", "/api/v1/agent/workspaces/{id}/processes/{process_id}"),
    ("DELETE", "/api/v1/mcp"),
    ("DELETE", "/api/v1/mcp/servers/{id}"),
    ("DELETE", "/api/v1/mcp/servers/{id}/mcp"),
    ("DELETE", "/api/v1/tokens/{token_id}"),
    ("GET", "/api/v1/agent/snapshots"),
    ("GET", "/api/v1/agent/snapshots/{snapshot_id}"),
    ("GET", "/api/v1/agent/workspaces"),
    ("GET", "/api/v1/agent/workspaces/providers"),
    ("GET", "/api/v1/agent/workspaces/{id}"),
    ("GET", "/api/v1/agent/workspaces/{id}/attachments"),
    ("GET", "/api/v1/agent/workspaces/{id}/files"),
    ("GET", "/api/v1/agent/workspaces/{id}/metrics"),
    ("GET", "/api/v1/agent/workspaces/{id}/processes"),
    ("GET", "/api/v1/agent/workspaces/{id}/processes/{process_id}"),
    ("GET", "/api/v1/agent/workspaces/{id}/processes/{process_id}/output"),
    ("GET", "/api/v1/agent/workspaces/{id}/terminal"),
    ("GET", "/api/v1/agent/workspaces/{id}/tunnel/{port}"),
    ("GET", "/api/v1/agent/workspaces/{id}/watch"),
    ("GET", "/api/v1/alerts"),
    ("GET", "/api/v1/audit"),
    ("GET", "/api/v1/events"),
    ("GET", "/api/v1/mcp"),
    ("GET", "/api/v1/mcp/servers"),
    ("GET", "/api/v1/mcp/servers/{id}"),
    ("GET", "/api/v1/mcp/servers/{id}/logs"),
    ("GET", "/api/v1/mcp/servers/{id}/mcp"),
    ("GET", "/api/v1/openapi.json"),
    ("GET", "/api/v1/tokens"),
    ("GET", "/api/v1/tokens/{token_id}"),
    ("GET", "/api/v1/warm-pool"),
    ("GET", "/healthz"),
    ("GET", "/metrics"),
    ("GET", "/readyz"),
    ("PATCH", "/api/v1/mcp/servers/{id}"),
    ("POST", "/api/v1/agent/workspaces"),
    ("POST", "/api/v1/agent/workspaces/from-snapshot"),
    ("POST", "/api/v1/agent/workspaces/{id}/attach"),
    ("POST", "/api/v1/agent/workspaces/{id}/bash"),
    ("POST", "/api/v1/agent/workspaces/{id}/detach"),
    ("POST", "/api/v1/agent/workspaces/{id}/edit"),
    ("POST", "/api/v1/agent/workspaces/{id}/exec"),
    ("POST", "/api/v1/agent/workspaces/{id}/fork"),
    ("POST", "/api/v1/agent/workspaces/{id}/git"),
    ("POST", "/api/v1/agent/workspaces/{id}/glob"),
    ("POST", "/api/v1/agent/workspaces/{id}/grep"),
    ("POST", "/api/v1/agent/workspaces/{id}/mcp"),
    ("POST", "/api/v1/agent/workspaces/{id}/read"),
    ("POST", "/api/v1/agent/workspaces/{id}/resume"),
    ("POST", "/api/v1/agent/workspaces/{id}/snapshot"),
    ("POST", "/api/v1/agent/workspaces/{id}/stop"),
    ("POST", "/api/v1/agent/workspaces/{id}/write"),
    ("POST", "/api/v1/mcp"),
    ("POST", "/api/v1/mcp/servers"),
    ("POST", "/api/v1/mcp/servers/{id}/call"),
    ("POST", "/api/v1/mcp/servers/{id}/mcp"),
    ("POST", "/api/v1/mcp/servers/{id}/restart"),
    ("POST", "/api/v1/tokens"),
    ("PUT", "/api/v1/agent/workspaces/{id}/files"),
    ("PUT", "/api/v1/warm-pool"),
];

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// The administrator's token.
const ADMIN: &str = "admin";

struct Server {
    router: Router,
    _folder: TempDir,
}

async fn open_store(folder: &TempDir) -> Arc<dyn Store> {
    let vault = Vault::new(&SecretKey::from([7; 32]));
    Arc::new(SqliteStore::open(&folder.path().join("emergent.db"), vault).await.unwrap())
}

fn known(kind: TokenKind, token: &BearerToken) -> ApiToken {
    ApiToken {
        id: TokenId::generate(),
        name: "test".to_owned(),
        kind,
        hash: token.hash(),
        created_at: emergent_store::now(),
        expires_at: None,
        owner_id: None,
        revoked_at: None,
        session: None,
        mcp_servers: None,
    }
}

impl Server {
    async fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let store = open_store(&folder).await;
        let reader = BearerToken::from("reader".to_owned());
        store.insert_token(&known(TokenKind::ReadOnly, &reader), None).await.unwrap();
        for kind in TokenKind::ALL {
            let token = BearerToken::from(format!("matrix-{kind}"));
            store.insert_token(&known(kind, &token), None).await.unwrap();
        }
        let revoked = BearerToken::from("revoked".to_owned());
        let revoked =
            ApiToken { revoked_at: Some(emergent_store::now()), ..known(TokenKind::Admin, &revoked) };
        store.insert_token(&revoked, None).await.unwrap();
        let expired = BearerToken::from("expired".to_owned());
        let expired =
            ApiToken { expires_at: Some(emergent_store::now()), ..known(TokenKind::Admin, &expired) };
        store.insert_token(&expired, None).await.unwrap();
        let token = BearerToken::from(ADMIN.to_owned());
        store.insert_token(&known(TokenKind::Admin, &token), None).await.unwrap();
        Self::around(store, None, folder)
    }

    fn around(store: Arc<dyn Store>, workspaces: Option<Handle>, folder: TempDir) -> Self {
        Self::hosting(store, workspaces, None, folder)
    }

    fn hosting(
        store: Arc<dyn Store>,
        workspaces: Option<Handle>,
        mcp_servers: Option<emergent_mcp_hosting::Handle>,
        folder: TempDir,
    ) -> Self {
        let listening = "127.0.0.1:8585".parse().unwrap();
        let state =
            ApiState::new(store, workspaces, mcp_servers, None, listening, &crate::Options::new(listening));
        Self { router: router(state), _folder: folder }
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> (StatusCode, HeaderMap, Bytes) {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "localhost:8585");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        (parts.status, parts.headers, body.collect().await.unwrap().to_bytes())
    }

    async fn send_as_admin(&self, method: &str, path: &str) -> (StatusCode, HeaderMap, Bytes) {
        self.send(method, path, &[("authorization", &format!("Bearer {ADMIN}"))]).await
    }

    async fn code(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let (status, _, body) = self.send(method, path, headers).await;
        (status.as_u16(), code_of(&body))
    }
}

fn code_of(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap();
    assert!(body["error"]["message"].is_string() && body["error"]["details"].is_object(), "{body}");
    body["error"]["code"].as_str().unwrap().to_owned()
}

fn concrete(path: &str) -> String {
    path.replace("{id}", "0199e6a4-0000-7000-8000-000000000000")
        .replace("{process_id}", "1")
        .replace("{port}", "80")
        .replace("{token_id}", "0199e6a4-0000-7000-8000-000000000000")
}

fn documented() -> BTreeSet<(String, String)> {
    let document: Value = serde_json::from_str(&crate::openapi_json().unwrap()).unwrap();
    let mut found = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            found.insert((method.to_uppercase(), path.clone()));
        }
    }
    found
}

#[test]
fn the_document_describes_exactly_the_contract() {
    let expect: BTreeSet<_> =
        ENDPOINTS.iter().map(|(method, path)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(documented(), expect);
}

#[tokio::test]
async fn the_router_serves_exactly_what_is_documented() {
    let server = Server::start().await;
    let documented = documented();
    let paths: BTreeSet<_> = documented.iter().map(|(_, path)| path.clone()).collect();
    for path in paths {
        for method in METHODS {
            let (status, headers, body) = server.send_as_admin(method, &concrete(&path)).await;
            if documented.contains(&(method.to_owned(), path.clone())) {
                assert_ne!(status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
                assert!(status.is_success() || code_of(&body) != "not_found", "{method} {path}");
            } else {
                assert_eq!(code_of(&body), "method_not_allowed", "{method} {path}");
                assert!(headers.contains_key("allow"), "{method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn everything_but_three_paths_needs_a_token() {
    let server = Server::start().await;
    let public = ["/healthz", "/readyz", "/api/v1/openapi.json"];
    for (method, path) in ENDPOINTS {
        let (status, headers, body) = server.send(method, &concrete(path), &[]).await;
        if public.contains(path) {
            assert_eq!(status, StatusCode::OK, "{path}");
        } else {
            assert_eq!(
                (status, code_of(&body).as_str()),
                (StatusCode::UNAUTHORIZED, "unauthorized"),
                "{path}"
            );
            assert_eq!(headers["www-authenticate"], "Bearer");
        }
    }
    let unauthorized = (401, "unauthorized".to_owned());
    assert_eq!(server.code("GET", "/no/such/path", &[]).await, unauthorized);
    let path = "/api/v1/agent/workspaces";
    for value in ["Bearer wrong", "Bearer expired", "Basic YTpi", "Bearer"] {
        assert_eq!(server.code("GET", path, &[("authorization", value)]).await, unauthorized, "{value}");
    }
    let reader = [("authorization", "Bearer reader")];
    assert_eq!(server.code("POST", path, &reader).await, (403, "forbidden".to_owned()));
}

#[test]
fn every_route_has_a_row_in_the_table_of_access() {
    let rows: BTreeSet<_> = crate::access::TABLE
        .iter()
        .map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned()))
        .collect();
    assert_eq!(documented(), rows);
}

/// Every route with every kind of token, and with none that is valid.
#[tokio::test]
async fn the_table_of_access_decides() {
    for (method, path, access) in crate::access::TABLE {
        // Another one for each: whoever shows so many tokens that are not valid is shut out.
        let server = Server::start().await;
        for token in [None, Some("Bearer unknown"), Some("Bearer expired"), Some("Bearer revoked")] {
            let headers: Vec<_> = token.iter().map(|token| ("authorization", *token)).collect();
            let (status, ..) = server.send(method, &concrete(path), &headers).await;
            let refused = status == StatusCode::UNAUTHORIZED;
            assert_eq!(refused, *access != crate::access::Access::Public, "{method} {path} with {token:?}");
        }
        for kind in TokenKind::ALL {
            let token = format!("Bearer matrix-{kind}");
            let (status, _, body) = server.send(method, &concrete(path), &[("authorization", &token)]).await;
            let name = format!("{method} {path} with {kind}: {status}");
            assert_ne!(status, StatusCode::UNAUTHORIZED, "{name}");
            let refused = status == StatusCode::FORBIDDEN && code_of(&body) == "forbidden";
            assert_eq!(refused, !access.admits(kind), "{name}");
        }
    }
}

/// Proves: ROLL-1
#[tokio::test]
async fn switched_off_every_workspace_endpoint_is_404() {
    let server = Server::start().await;
    for (method, path) in
        ENDPOINTS.iter().filter(|(_, path)| path.contains("/agent/") || path.contains("/mcp"))
    {
        let (status, _, body) = server.send_as_admin(method, &concrete(path)).await;
        assert_eq!((status.as_u16(), code_of(&body).as_str()), (404, "feature_disabled"), "{method} {path}");
    }
}

#[tokio::test]
async fn every_error_has_the_same_shape() {
    let server = Server::start().await;
    let (status, headers, body) = server.send_as_admin("GET", "/no/such/path").await;
    assert_eq!((status.as_u16(), code_of(&body).as_str()), (404, "not_found"));
    assert!(headers.contains_key("x-request-id"));
    assert_eq!(server.code("DELETE", "/healthz", &[]).await, (405, "method_not_allowed".to_owned()));
    let evil = [("host", "evil.example")];
    assert_eq!(server.code("GET", "/healthz", &evil).await, (403, "forbidden_host".to_owned()));
    let page = [("origin", "http://evil.example")];
    assert_eq!(server.code("GET", "/healthz", &page).await, (403, "forbidden_origin".to_owned()));
}

#[tokio::test]
async fn a_panic_is_an_answer() {
    async fn broken() -> &'static str {
        panic!("on purpose")
    }
    let router: Router =
        Router::new().route("/", axum::routing::get(broken)).layer(CatchPanicLayer::custom(panicked));
    let response = router.oneshot(Request::new(Body::empty())).await.unwrap();
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(code_of(&body), "internal_error");
    assert!(!String::from_utf8_lossy(&body).contains("on purpose"), "what failed is for the log");
}

#[test]
fn every_operation_is_fully_described() {
    let document: Value = serde_json::from_str(&crate::openapi_json().unwrap()).unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_eq!(document["security"][0]["bearer"], serde_json::json!([]));
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let name = format!("{method} {path}");
            assert!(operation["operationId"].is_string() && operation["summary"].is_string(), "{name}");
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.keys().any(|status| status.starts_with('2') || status == "101"), "{name}");
            for status in ["403", "500"] {
                assert!(responses.contains_key(status), "{name} has no {status}");
            }
            for (status, response) in responses.iter().filter(|(status, _)| status.starts_with(['4', '5'])) {
                let schema = &response["content"]["application/json"]["schema"];
                // To an MCP client an error is one of JSON-RPC.
                let is_of_json_rpc = path.ends_with("/mcp") && schema["type"] == "object";
                let is_ours = schema["$ref"] == "#/components/schemas/ErrorBody";
                assert!(is_ours || is_of_json_rpc, "{name} {status}: {schema}");
            }
        }
    }
    assert_every_reference_leads_somewhere(&document, &document);
}

#[test]
fn every_name_in_the_document_is_one_on_the_wire() {
    let document: Value = serde_json::from_str(&crate::openapi_json().unwrap()).unwrap();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        for value in schema["enum"].as_array().into_iter().flatten() {
            let value = value.as_str().unwrap();
            assert_eq!(value, value.to_lowercase(), "{name}");
        }
    }
}

fn assert_every_reference_leads_somewhere(document: &Value, part: &Value) {
    match part {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
            }
            fields.values().for_each(|part| assert_every_reference_leads_somewhere(document, part));
        }
        Value::Array(parts) => {
            parts.iter().for_each(|part| assert_every_reference_leads_somewhere(document, part));
        }
        _ => {}
    }
}

#[test]
fn the_committed_document_is_current() {
    let committed = include_str!("../../../../openapi/v1.json");
    assert!(committed.trim_end() == crate::openapi_json().unwrap(), "run `cargo xtask openapi`");
}
