//! Stopping and resuming.

use emergent_test_support::Sandbox;
use serde_json::json;

use crate::api::Api;

/// Proves: LIFE-11, LIFE-12
#[tokio::test]
async fn files_stay_and_processes_end() {
    let api = Api::start().await;
    let workspace = api.create().await;
    workspace.sh("echo kept > /workspace/a; echo home > ~/b; echo gone > /tmp/c").await;
    workspace.post("/bash", json!({"command": "sleep 1000", "background": true})).await;
    let used = workspace.get().await.body["last_used_at"].as_str().unwrap().to_owned();

    let stopped = workspace.post("/stop", json!({"mode": "disk"})).await;
    assert_eq!((stopped.status, &stopped.body["status"]), (200, &json!("stopped")));
    assert!(stopped.body["last_used_at"].as_str().unwrap() >= used.as_str());
    assert_eq!(Sandbox::of(workspace.id).count(), 0);
    assert_eq!(workspace.status().await, "stopped");
    let refused = workspace.post("/bash", json!({"command": "true"})).await;
    assert_eq!(
        (refused.failure(), refused.detail("status")),
        ((409, "workspace_not_ready"), &json!("stopped"))
    );
    let refused = workspace.post("/read", json!({"path": "a"})).await;
    assert_eq!(refused.failure(), (409, "workspace_not_ready"));

    // Again, and without a body at all: it is so already.
    let again = api.probe().send(api.probe().request(reqwest::Method::POST, &workspace.path("/stop"))).await;
    assert_eq!((again.status, &again.body["status"]), (200, &json!("stopped")));

    let resumed = workspace.post("/resume", json!({})).await;
    assert_eq!((resumed.status, &resumed.body["status"]), (200, &json!("ready")));
    assert_eq!(workspace.sh("cat /workspace/a ~/b").await, "kept\nhome\n");
    assert_eq!(workspace.sh("ls /tmp").await, "");
    assert!(!Sandbox::of(workspace.id).runs("sleep 1000"));
    assert_eq!(workspace.post("/resume", json!({})).await.status, 200);
    api.finish().await;
}
