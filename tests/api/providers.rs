//! Who can make sandboxes.

use serde_json::json;

use crate::api::{Api, WORKSPACES};

/// Proves: ORCH-02, ORCH-15, RISK-DOWNTIME-2
#[tokio::test]
async fn providers_say_how_they_are_and_what_they_can_do() {
    let api = Api::start().await;
    let path = format!("{WORKSPACES}/providers");
    let list = api.get(&path).await.body;
    let providers = list["providers"].as_array().unwrap();
    assert_eq!(providers.len(), 1);
    let local = &providers[0];
    assert_eq!((&local["name"], &local["status"]), (&json!("local"), &json!("healthy")), "{local}");
    assert_eq!((&local["reason"], &local["isolation"]), (&json!(null), &json!("container")));
    assert_eq!(local["active_workspaces"], 0);
    assert!(local["last_check_at"].is_string());
    assert!(local["resources"]["cpus"].as_u64().unwrap() > 0, "{local}");
    let capabilities = &local["capabilities"];
    assert_eq!((&capabilities["persistence"], &capabilities["snapshots"]), (&json!("full"), &json!(false)));
    assert_eq!(capabilities["networks"], json!(["isolated", "internet"]));
    assert!(capabilities["warm_pool"].is_boolean());
    assert!(capabilities["platform_needs"].as_array().unwrap().contains(&json!("linux")));

    let workspace = api.create().await;
    let local = &api.get(&path).await.body["providers"][0];
    assert_eq!(local["active_workspaces"], 1);
    let (p50, p95) = (local["start_ms"]["p50"].as_u64().unwrap(), local["start_ms"]["p95"].as_u64().unwrap());
    assert!(0 < p50 && p50 <= p95, "measured, not a literal: {local}");
    workspace.post("/stop", json!({})).await;
    assert_eq!(api.get(&path).await.body["providers"][0]["active_workspaces"], 0);
    api.finish().await;
}
