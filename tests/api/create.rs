//! Making workspaces.

use std::time::Duration;

use emergent_test_support::{TestServerOptions, eventually};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::api::{Api, WORKSPACES};

fn instant(value: &Value) -> OffsetDateTime {
    OffsetDateTime::parse(value.as_str().unwrap(), &Rfc3339).unwrap()
}

/// Proves: LIFE-01, DESIGN-10.1, DESIGN-10.2, DESIGN-10.25, DESIGN-7.3, ORCH-07
/// Proves: GOAL-1, CONSTRAINT-1, MIGR-2.4, TRADE-SELFHOST-3
#[tokio::test]
async fn a_plain_create_gets_the_defaults_and_is_ready() {
    let api = Api::start().await;
    let created = api.post(WORKSPACES, &json!({})).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let workspace = &created.body;
    assert_eq!(workspace["status"], "ready");
    assert_eq!(workspace["container_type"], "agent_workspace");
    assert_eq!(workspace["lifecycle"], "ephemeral");
    assert_eq!(workspace["deployment_mode"], "self-hosted");
    assert_eq!(workspace["resource_limits"], json!({"cpu": "2", "memory": "4G", "disk": "10G"}));
    assert_eq!(workspace["requested_provider"], "auto");
    assert_eq!((&workspace["provider"], &workspace["isolation"]), (&json!("local"), &json!("container")));
    assert_eq!((&workspace["persistence"], &workspace["disk_enforcement"]), (&json!("full"), &json!("hard")));
    assert_eq!(workspace["checkout"]["status"], "none");
    assert_eq!(workspace["metadata"], json!({}));
    let lives = instant(&workspace["expires_at"]) - instant(&workspace["last_used_at"]);
    assert_eq!(lives, time::Duration::days(30));

    let automatic = api.post(WORKSPACES, &json!({"provider": "auto"})).await;
    assert_ne!(automatic.body["id"], workspace["id"]);
    for field in ["provider", "isolation", "requested_provider", "resource_limits", "network", "persistence"]
    {
        assert_eq!(automatic.body[field], workspace[field], "{field}");
    }
    let path = format!("{WORKSPACES}/{}", workspace["id"].as_str().unwrap());
    let bash = api.post(&format!("{path}/bash"), &json!({"command": "echo hello"})).await;
    assert_eq!(bash.body["stdout"], "hello\n");
    assert_eq!(api.get(&path).await.body["status"], "ready");
    api.finish().await;
}

/// Proves: DESIGN-10.18, DESIGN-10.24
#[tokio::test]
async fn every_field_of_a_create_takes_effect() {
    let api = Api::start().await;
    let created = api
        .post(
            WORKSPACES,
            &json!({
                "container_type": "agent_workspace",
                "repository_url": null,
                "branch": null,
                "provider": "local",
                "deployment_mode": "managed",
                "resource_limits": {"cpu": 0.5, "memory": "300M", "disk": 134_217_728},
                "warm_start": true,
                "min_isolation": "container",
                "network": "isolated",
                "env": {"GREETING": "hello"},
                "base_image": null,
                "ttl_seconds": 3600,
                "metadata": {"task": "42", "nested": {"deep": [true]}},
            }),
        )
        .await;
    assert_eq!(created.status, 201, "{}", created.body);
    let workspace = &created.body;
    assert_eq!(workspace["requested_provider"], "local");
    assert_eq!(workspace["deployment_mode"], "managed");
    assert_eq!(workspace["resource_limits"], json!({"cpu": "0.5", "memory": "300M", "disk": "128M"}));
    assert_eq!(workspace["network"], "isolated");
    assert_eq!(workspace["metadata"], json!({"task": "42", "nested": {"deep": [true]}}));
    let lives = instant(&workspace["expires_at"]) - instant(&workspace["last_used_at"]);
    assert_eq!(lives, time::Duration::HOUR);
    assert!(!workspace.to_string().contains("GREETING"), "variables may be secret");
    api.finish().await;
}

/// Proves: DESIGN-10.25
#[tokio::test]
async fn without_waiting_it_answers_at_once_and_becomes_ready() {
    let api = Api::start().await;
    let created = api.post(&format!("{WORKSPACES}?wait=false"), &json!({})).await;
    assert_eq!((created.status, &created.body["status"]), (202, &json!("creating")));
    let path = format!("{WORKSPACES}/{}", created.body["id"].as_str().unwrap());
    eventually("the workspace is ready", Duration::from_secs(10), async || {
        (api.get(&path).await.body["status"] == "ready").then_some(())
    })
    .await;
    api.finish().await;
}

/// Proves: LIFE-02, ORCH-10, ORCH-11
#[tokio::test]
async fn a_provider_that_is_named_and_not_there_is_an_error_and_leaves_nothing() {
    let api = Api::start().await;
    for provider in ["firecracker", "gvisor", "docker", "e2b"] {
        let answer = api.post(WORKSPACES, &json!({"provider": provider})).await;
        assert_eq!(answer.failure(), (503, "no_provider_available"), "{}", answer.body);
        let providers = answer.detail("providers").as_array().unwrap();
        assert_eq!(providers.len(), 1, "nothing else is tried: {providers:?}");
        assert_eq!(providers[0]["provider"], provider);
        assert!(providers[0]["reason"].is_string());
        assert!(answer.headers.contains_key("retry-after"));
    }
    assert_eq!(api.count().await, 0);

    // Whoever does not wait sees in the workspace what became of it.
    let created = api.post(&format!("{WORKSPACES}?wait=false"), &json!({"provider": "gvisor"})).await;
    assert_eq!(created.status, 202);
    let path = format!("{WORKSPACES}/{}", created.body["id"].as_str().unwrap());
    let (failed, _) = eventually("the workspace has failed", Duration::from_secs(10), async || {
        let answer = api.get(&path).await;
        (answer.body["status"] == "failed").then_some(answer.body)
    })
    .await;
    assert!(failed["error"]["message"].as_str().unwrap().contains("gvisor"), "{failed}");
    let refused = api.post(&format!("{path}/bash"), &json!({"command": "true"})).await;
    assert_eq!(
        (refused.failure(), refused.detail("status")),
        ((409, "workspace_not_ready"), &json!("failed"))
    );
    assert_eq!(api.delete(&path).await.status, 200);
    api.finish().await;
}

#[tokio::test]
async fn what_cannot_be_enforced_is_refused_and_named() {
    let api = Api::start().await;
    for (body, field) in [
        (json!({"base_image": "debian:12"}), "base_image"),
        (json!({"resource_limits": {"memory": "1M"}}), "resource_limits.memory"),
        (json!({"resource_limits": {"disk": "1M"}}), "resource_limits.disk"),
        (json!({"min_isolation": "microvm"}), "min_isolation"),
        (json!({"min_isolation": "gvisor", "provider": "local"}), "min_isolation"),
    ] {
        let answer = api.post(WORKSPACES, &body).await;
        assert_eq!(answer.failure(), (400, "not_enforceable"), "{body}: {}", answer.body);
        assert_eq!(answer.detail("field"), field);
    }
    assert_eq!(api.count().await, 0);
    // Whoever does not wait sees it in the workspace.
    let created = api.post(&format!("{WORKSPACES}?wait=false"), &json!({"min_isolation": "microvm"})).await;
    let path = format!("{WORKSPACES}/{}", created.body["id"].as_str().unwrap());
    eventually("it has failed", Duration::from_secs(10), async || {
        (api.get(&path).await.body["error"]["code"] == "not_enforceable").then_some(())
    })
    .await;
    api.finish().await;
}

/// A request can demand more than the installation does, never less.
#[tokio::test]
async fn the_servers_own_demands_hold_for_every_request() {
    let options = TestServerOptions::default()
        .with("EMERGENT_MIN_ISOLATION", "gvisor")
        .with("WORKSPACE_DEFAULT_MEMORY", "512M");
    let api = Api::start_with(options).await;
    for body in [json!({}), json!({"min_isolation": "container"}), json!({"provider": "local"})] {
        assert_eq!(api.post(WORKSPACES, &body).await.failure(), (503, "no_provider_available"), "{body}");
    }
    let more = api.post(WORKSPACES, &json!({"min_isolation": "microvm"})).await;
    assert_eq!(more.failure(), (400, "not_enforceable"), "{}", more.body);
    api.finish().await;

    let options = TestServerOptions::default()
        .with("WORKSPACE_DEFAULT_CPU", "0.5")
        .with("WORKSPACE_DEFAULT_MEMORY", "200M")
        .with("WORKSPACE_DEFAULT_DISK", "64M")
        .with("WORKSPACE_DEFAULT_NETWORK", "isolated")
        .with("WORKSPACE_DEFAULT_TTL_DAYS", "1");
    let api = Api::start_with(options).await;
    let created = api.post(WORKSPACES, &json!({})).await.body;
    assert_eq!(created["resource_limits"], json!({"cpu": "0.5", "memory": "200M", "disk": "64M"}));
    assert_eq!(created["network"], "isolated");
    assert_eq!(instant(&created["expires_at"]) - instant(&created["last_used_at"]), time::Duration::DAY);
    api.finish().await;
}
