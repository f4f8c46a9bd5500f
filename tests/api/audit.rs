//! What was done is remembered, and nothing secret with it.

use std::time::Duration;

use emergent_test_support::eventually;
use reqwest::Method;
use serde_json::{Value, json};

use crate::api::{Api, WORKSPACES, moment};

impl Api {
    async fn audited(&self, query: &str) -> Vec<Value> {
        let answer = self.get(&format!("/api/v1/audit?{query}")).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body["items"].as_array().unwrap().clone()
    }
}

#[tokio::test]
async fn every_call_is_remembered_and_outlives_its_workspace() {
    let api = Api::start().await;
    let workspace = api.create().await;
    workspace.sh("echo hello").await;
    workspace.post("/write", json!({"file_path": "a", "content": "hunter2"})).await;
    workspace.post("/edit", json!({"file_path": "a", "old_string": "hunter2", "new_string": "x"})).await;
    workspace.post("/read", json!({"file_path": "missing"})).await;
    workspace.post("/glob", json!({"pattern": "*"})).await;
    workspace.post("/grep", json!({"pattern": "x"})).await;
    workspace.post("/git", json!({"action": "checkout", "path": "sub", "ref": "some-branch"})).await;
    let id = workspace.id;
    workspace.destroy().await;
    let query = format!("workspace_id={id}&limit=100");
    let (entries, _) = eventually("all of it is there", Duration::from_secs(10), async || {
        let entries = api.audited(&query).await;
        let ended = entries.iter().all(|entry| entry["outcome"] != "running");
        (entries.iter().any(|entry| entry["tool"] == "destroy_workspace") && ended).then_some(entries)
    })
    .await;
    for (tool, outcome) in [
        ("bash", "ok"),
        ("write", "ok"),
        ("edit", "ok"),
        ("read", "error"),
        ("glob", "ok"),
        ("grep", "ok"),
        ("git", "error"),
    ] {
        let entry = entries.iter().find(|entry| entry["tool"] == tool);
        let entry = entry.unwrap_or_else(|| panic!("{tool} is missing: {entries:?}"));
        assert_eq!(entry["outcome"], outcome, "{entry}");
        assert!(entry["duration_ms"].is_u64() && entry["caller"].is_string(), "{entry}");
    }
    let git = entries.iter().find(|entry| entry["tool"] == "git").unwrap();
    assert_eq!(git["summary"], json!({"action": "checkout", "path": "sub", "ref": "some-branch"}));
    let read = entries.iter().find(|entry| entry["tool"] == "read").unwrap();
    assert_eq!(read["error_code"], "file_not_found");
    assert!(!json!(entries).to_string().contains("hunter2"), "contents are not remembered");
    api.finish().await;
}

/// Whose work it was is remembered with it.
#[tokio::test]
async fn a_call_is_remembered_with_its_session() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let session = uuid::Uuid::now_v7().to_string();
    workspace.sh("echo before").await;
    assert_eq!(workspace.post("/attach", json!({"session_id": session})).await.status, 200);
    workspace.sh("echo during").await;
    workspace.post("/stop", json!({})).await;
    workspace.post("/resume", json!({})).await;
    assert_eq!(workspace.post("/detach", json!({})).await.status, 200);
    workspace.sh("echo after").await;
    let query = format!("workspace_id={}&limit=100", workspace.id);
    let (entries, _) = eventually("all of it is there", Duration::from_secs(10), async || {
        let entries = api.audited(&query).await;
        entries.iter().any(|entry| entry["summary"]["command"] == "echo after").then_some(entries)
    })
    .await;
    let of = |what: &dyn Fn(&Value) -> bool| {
        let entry = entries.iter().find(|entry| what(entry)).unwrap_or_else(|| panic!("{entries:?}"));
        entry["session_id"].clone()
    };
    assert_eq!(of(&|entry| entry["summary"]["command"] == "echo before"), Value::Null);
    assert_eq!(of(&|entry| entry["summary"]["command"] == "echo during"), json!(session));
    assert_eq!(of(&|entry| entry["tool"] == "stop_workspace"), json!(session));
    assert_eq!(of(&|entry| entry["summary"]["command"] == "echo after"), Value::Null);
    api.finish().await;
}

/// What a `kill -9` of the server cuts off is remembered too.
#[tokio::test]
async fn a_call_that_is_cut_off_is_remembered() {
    let mut api = Api::start().await;
    let path = {
        let workspace = api.create().await;
        workspace.path("/bash")
    };
    let request = api.probe().request(Method::POST, &path).json(&json!({"command": "sleep 100"}));
    let call = tokio::spawn(request.send());
    moment(1500).await;
    api.server.kill();
    assert!(call.await.unwrap().is_err());
    api.restart().await;
    let entries = api.audited("tool=bash").await;
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0]["outcome"], "interrupted");
    assert_eq!(entries[0]["summary"]["command"], "sleep 100");
    api.finish().await;
}

/// Secrets in every place in which somebody might put one.
#[tokio::test]
async fn no_secret_is_logged() {
    let api = Api::start().await;
    let workspace = api.create_with(json!({"env": {"API_KEY": "secret-in-env"}})).await;
    let made = api.post("/api/v1/tokens", &json!({"name": "u", "kind": "user"})).await;
    let token = made.body["token"].as_str().unwrap().to_owned();
    let probe = api.probe();
    let body = json!({"command": "echo secret-printed", "env": {"PASSWORD": "secret-in-call"}});
    workspace.post("/bash", body).await;
    for command in [
        "git clone https://user:secret-in-url@git.invalid/x",
        "echo \"{\\\"password\\\": \\\"secret in-json\\\"}\"",
        "echo '{\"apiKey\":\"secret-in-quotes\"}'",
        "true --password secret-in-flag --token=secret-in-flag",
        "true -H 'Authorization: Basic secret-in-header'",
    ] {
        workspace.post("/bash", json!({"command": format!("{command} > /dev/null || true")})).await;
    }
    workspace.post("/write", json!({"file_path": "a", "content": "secret-content"})).await;
    for request in [
        probe.anonymous(Method::GET, WORKSPACES).bearer_auth(&token),
        probe.anonymous(Method::GET, WORKSPACES).bearer_auth("secret-guess"),
        probe.anonymous(Method::GET, WORKSPACES).header("x-api-key", "secret-api-key"),
        probe.anonymous(Method::GET, &format!("{WORKSPACES}?token=secret-in-query")),
        probe.anonymous(Method::POST, WORKSPACES).bearer_auth(&token).body("{\"secret-body\": "),
    ] {
        probe.send(request).await;
    }
    moment(300).await;
    let log = api.server.log();
    assert!(log.contains("request"), "there is a log");
    let audit = json!(api.audited("limit=500").await).to_string();
    let secrets = [
        "secret-in-env",
        "secret-in-call",
        "secret-in-url",
        "secret in-json",
        "secret-in-quotes",
        "secret-in-flag",
        "secret-in-header",
        "secret-content",
        "secret-guess",
        "secret-api-key",
        "secret-in-query",
        "secret-body",
        token.as_str(),
        probe.token(),
    ];
    for secret in secrets {
        assert!(!log.contains(secret), "{secret} is in the log");
        assert!(!audit.contains(secret), "{secret} is in the audit log");
    }
    api.finish().await;
}

#[tokio::test]
async fn figures_are_counted() {
    let api = Api::start().await;
    let workspace = api.create().await;
    workspace.sh("true").await;
    let metrics = api.probe().request(Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(metrics.status(), 200);
    let text = metrics.text().await.unwrap();
    let has = |part: &str| text.lines().any(|line| !line.starts_with('#') && line.contains(part));
    assert!(has("tool=\"bash\""), "{text}");
    // Only the figures of what runs name it, and they go with it. Calls are counted for all together.
    let id = workspace.id.to_string();
    let mut naming = text.lines().filter(|line| line.contains(&id));
    assert!(naming.all(|line| line.starts_with("emergent_workspace_")), "{text}");
    let anonymous = api.probe().anonymous(Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(anonymous.status(), 401);
    api.finish().await;
}
