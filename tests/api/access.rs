//! Who may ask, and how.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use emergent_test_support::TestServerOptions;
use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{Api, WORKSPACES};

#[tokio::test]
async fn only_who_has_the_token_gets_in() {
    let api = Api::start().await;
    let probe = api.probe();
    for path in ["/healthz", "/readyz", "/api/v1/openapi.json"] {
        assert_eq!(probe.send(probe.anonymous(Method::GET, path)).await.status, 200, "{path}");
    }
    let refused = probe.send(probe.anonymous(Method::GET, WORKSPACES)).await;
    assert_eq!(refused.failure(), (401, "unauthorized"));
    assert_eq!(refused.headers["www-authenticate"], "Bearer");
    let token = probe.token();
    for value in ["", "Bearer", "Bearer wrong", token, &format!("Basic {token}"), &format!("Bearer {token}x")]
    {
        let request =
            probe.anonymous(Method::POST, WORKSPACES).header("authorization", value).json(&json!({}));
        assert_eq!(
            api.call(Method::POST, WORKSPACES, request).await.failure(),
            (401, "unauthorized"),
            "{value:?}"
        );
    }
    let in_the_address = format!("{WORKSPACES}?token={token}");
    let request = probe.anonymous(Method::GET, &in_the_address);
    assert_eq!(api.call(Method::GET, &in_the_address, request).await.failure(), (401, "unauthorized"));
    assert_eq!(api.count().await, 0);
    api.finish().await;
}

#[tokio::test]
async fn strangers_hosts_and_web_pages_are_refused() {
    let api =
        Api::start_with(TestServerOptions::default().with("EMERGENT_ALLOWED_HOSTS", "emergent.example"))
            .await;
    let send = async |name: &str, value: &str| {
        api.call(Method::GET, WORKSPACES, api.probe().request(Method::GET, WORKSPACES).header(name, value))
            .await
    };
    for host in ["localhost", "127.0.0.1:1", "[::1]", "emergent.example", "EMERGENT.example:443"] {
        assert_eq!(send("host", host).await.status, 200, "{host}");
    }
    for host in ["evil.example", "emergent.example.evil.example", "10.0.0.1", "localhost@evil.example"] {
        assert_eq!(send("host", host).await.failure(), (403, "forbidden_host"), "{host}");
    }
    assert_eq!(send("origin", "http://localhost:3000").await.status, 200);
    assert_eq!(send("origin", "https://emergent.example").await.status, 200);
    for origin in ["http://evil.example", "null", "file://"] {
        assert_eq!(send("origin", origin).await.failure(), (403, "forbidden_origin"), "{origin}");
    }
    api.finish().await;
}

#[tokio::test]
async fn every_answer_has_an_id_and_is_not_to_be_kept() {
    let api = Api::start().await;
    let own = api.probe().request(Method::GET, WORKSPACES).header("x-request-id", "mine-1");
    assert_eq!(api.call(Method::GET, WORKSPACES, own).await.headers["x-request-id"], "mine-1");
    let one = api.get(WORKSPACES).await.headers["x-request-id"].clone();
    let other = api.get("/no/such").await.headers["x-request-id"].clone();
    assert_ne!(one, other);
    assert_eq!(api.get(WORKSPACES).await.headers["cache-control"], "no-store");
    api.finish().await;
}

#[tokio::test]
async fn secrets_are_private_and_never_logged() {
    let mut api = Api::start().await;
    let token = api.server.token().to_owned();
    for name in ["admin.token", "secret.key", "emergent.db"] {
        let mode = fs::metadata(api.server.data_dir().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(fs::metadata(api.server.data_dir()).unwrap().permissions().mode() & 0o777, 0o700);
    let workspace = api.create_with(json!({"env": {"API_KEY": "sesame-open"}})).await;
    workspace.sh("echo $API_KEY").await;
    workspace.post("/bash", json!({"command": "false", "env": {"PASSWORD": "hunter2-hunter2"}})).await;
    api.post_text(WORKSPACES, r#"{"env": {"API_KEY": {"sesame-open": 1}}}"#).await;
    let database: Vec<u8> = ["emergent.db", "emergent.db-wal"]
        .into_iter()
        .flat_map(|name| fs::read(api.server.data_dir().join(name)).unwrap_or_default())
        .collect();
    let log = api.server.log();
    for secret in ["sesame-open", "hunter2-hunter2", token.as_str()] {
        assert!(!log.contains(secret), "{secret} is in the log");
        let found = database.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "{secret} is in the database");
    }
    // The token outlives a restart; one that is lost is replaced.
    assert!(api.server.terminate().await.success());
    api.restart().await;
    assert_eq!(api.server.token(), token);
    assert!(api.server.terminate().await.success());
    fs::remove_file(api.server.data_dir().join("admin.token")).unwrap();
    api.restart().await;
    assert_ne!(api.server.token(), token);
    assert_eq!(api.get(WORKSPACES).await.status, 200);
    api.finish().await;
}

#[tokio::test]
async fn the_document_that_is_served_is_the_committed_one() {
    let api = Api::start().await;
    let committed: Value = serde_json::from_str(include_str!("../../openapi/v1.json")).unwrap();
    assert!(api.get("/api/v1/openapi.json").await.body == committed, "run `cargo xtask openapi`");
    api.finish().await;
}
