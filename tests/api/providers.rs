//! Who can make sandboxes.

use emergent_test_support::TestServerOptions;
use serde_json::json;

use crate::api::{Api, WORKSPACES};

/// Proves: ORCH-02, ORCH-15, DESIGN-2.3, RISK-DOWNTIME-2
#[tokio::test]
async fn providers_say_how_they_are_and_what_they_can_do() {
    let api = Api::start().await;
    let path = format!("{WORKSPACES}/providers");
    let list = api.get(&path).await.body;
    let providers = list["providers"].as_array().unwrap();
    let local = &providers[0];
    assert_eq!((&local["name"], &local["status"]), (&json!("local"), &json!("healthy")), "{local}");
    assert_eq!((&local["reason"], &local["isolation"]), (&json!(null), &json!("container")));
    assert_eq!(local["active_workspaces"], 0);
    assert!(local["last_check_at"].is_string());
    assert!(local["resources"]["cpus"].as_u64().unwrap() > 0, "{local}");
    let capabilities = &local["capabilities"];
    assert_eq!((&capabilities["persistence"], &capabilities["snapshots"]), (&json!("full"), &json!(true)));
    assert_eq!(capabilities["networks"], json!(["isolated", "internet"]));
    assert_eq!(capabilities["networks_unavailable"], json!([]));
    assert!(capabilities["warm_pool"].is_boolean());
    assert!(capabilities["platform_needs"].as_array().unwrap().contains(&json!("linux")));

    let workspace = api.create().await;
    let local = &api.get(&path).await.body["providers"][0];
    assert_eq!(local["active_workspaces"], 1);
    let (p50, p95) = (local["start_ms"]["p50"].as_u64().unwrap(), local["start_ms"]["p95"].as_u64().unwrap());
    assert!(0 < p50 && p50 <= p95, "measured, not a literal: {local}");
    workspace.post("/stop", json!({})).await;
    assert_eq!(api.get(&path).await.body["providers"][0]["active_workspaces"], 0);

    // Those that are not used are named with the reason.
    let others: Vec<_> = providers[1..].iter().map(|other| other["name"].as_str().unwrap()).collect();
    assert_eq!(others, ["e2b", "firecracker", "gvisor", "docker"]);
    for other in &providers[1..] {
        assert_eq!((&other["status"], &other["capabilities"]), (&json!("disabled"), &json!(null)), "{other}");
        assert!(other["reason"].is_string(), "{other}");
    }
    assert!(providers[3]["reason"].as_str().unwrap().contains("there is no Docker"), "{}", providers[3]);
    api.finish().await;
}

/// Without root there are no links and no rules, and so nobody is let out.
#[tokio::test]
async fn a_network_that_is_not_offered_has_a_reason() {
    let options = TestServerOptions { unprivileged: true, ..TestServerOptions::default() };
    let api = Api::start_with(options).await;
    let list = api.get(&format!("{WORKSPACES}/providers")).await.body;
    let local = &list["providers"][0];
    assert_eq!((&local["name"], &local["status"]), (&json!("local"), &json!("healthy")), "{local}");
    let capabilities = &local["capabilities"];
    assert_eq!(capabilities["networks"], json!(["isolated"]));
    let unavailable = capabilities["networks_unavailable"].as_array().unwrap();
    assert_eq!(unavailable.len(), 1, "{capabilities}");
    assert_eq!(unavailable[0]["network"], "internet");
    assert!(unavailable[0]["reason"].as_str().unwrap().contains("need root"), "{capabilities}");
    // A client that does not know of reasons reads the rest.
    assert!(api.server.client().providers().await.unwrap().providers[0].capabilities.is_some());
    api.finish().await;
}

/// What the administrator has left out is no failure of the server's: nothing is made, nothing is tried.
///
/// Proves: ROLL-4
#[tokio::test]
async fn a_provider_that_is_left_out_is_refused() {
    let api = Api::start_with(TestServerOptions::default().with("WORKSPACE_PROVIDERS", "local")).await;
    for provider in ["gvisor", "docker", "firecracker", "e2b"] {
        for wait in ["", "?wait=false"] {
            let answer = api.post(&format!("{WORKSPACES}{wait}"), &json!({"provider": provider})).await;
            assert_eq!(answer.failure(), (400, "provider_disabled"), "{}", answer.body);
            assert_eq!(
                (answer.detail("field"), answer.detail("provider")),
                (&json!("provider"), &json!(provider))
            );
        }
    }
    assert_eq!(api.count().await, 0);
    let list = api.get(&format!("{WORKSPACES}/providers")).await.body;
    let disabled = list["providers"].as_array().unwrap().iter().filter(|one| one["status"] == "disabled");
    assert_eq!(disabled.count(), 4, "{list}");
    assert_eq!(api.post(WORKSPACES, &json!({"provider": "local"})).await.status, 201);
    api.finish().await;
}
