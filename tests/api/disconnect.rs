//! Clients that go away.

use std::time::Duration;

use emergent_test_support::{Sandbox, eventually};
use reqwest::Method;
use serde_json::json;

use crate::api::{Api, WORKSPACES};

#[tokio::test]
async fn a_command_whose_client_has_gone_is_killed() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let request = api.probe().request(Method::POST, &workspace.path("/bash"));
    let request = request.json(&json!({"command": "sleep 4321 & sleep 4322"}));
    let call = tokio::spawn(request.send());
    eventually("it runs", Duration::from_secs(5), async || {
        Sandbox::of(workspace.id).runs("sleep 4322").then_some(())
    })
    .await;
    call.abort();
    let (_, took) = eventually("it is killed", Duration::from_secs(10), async || {
        let sandbox = Sandbox::of(workspace.id);
        (!sandbox.runs("sleep 4321") && !sandbox.runs("sleep 4322")).then_some(())
    })
    .await;
    assert!(took < Duration::from_secs(7), "{took:?}");
    assert_eq!(workspace.sh("echo fine").await, "fine\n");
    api.finish().await;
}

/// Whoever asked does not wait any longer, but what was asked for is there or not, never half.
#[tokio::test]
async fn a_create_whose_client_has_gone_leaves_something_whole_or_nothing() {
    let api = Api::start().await;
    for pause in [5, 20, 60] {
        let request = api.probe().request(Method::POST, WORKSPACES).json(&json!({}));
        let call = tokio::spawn(request.send());
        tokio::time::sleep(Duration::from_millis(pause)).await;
        call.abort();
    }
    eventually("nothing is half made", Duration::from_secs(10), async || {
        let list = api.get(WORKSPACES).await.body;
        list["items"].as_array().unwrap().iter().all(|item| item["status"] == "ready").then_some(())
    })
    .await;
    let census = api.server.census();
    assert_eq!(census.state_folders.len(), api.count().await, "{census}");
    api.finish().await;
}
