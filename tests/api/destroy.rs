//! Ending workspaces.

use std::time::{Duration, Instant};

use emergent_test_support::Sandbox;
use serde_json::json;

use crate::api::{Api, WORKSPACES, moment};

/// Proves: LIFE-08, LIFE-10, DESIGN-10.3
#[tokio::test]
async fn a_destroyed_workspace_is_gone() {
    let api = Api::start().await;
    let workspace = api.create().await;
    workspace.sh("echo hello > file").await;
    let destroyed = workspace.destroy().await;
    assert_eq!(destroyed.status, 200);
    assert_eq!(destroyed.body, json!({"id": workspace.id, "status": "destroyed"}));
    let again = workspace.destroy().await;
    assert_eq!(again.failure(), (404, "workspace_not_found"));
    assert!(again.body["error"]["message"].as_str().unwrap().contains(&workspace.id.to_string()));
    assert_eq!(workspace.get().await.failure(), (404, "workspace_not_found"));
    assert_eq!(
        workspace.post("/bash", json!({"command": "true"})).await.failure(),
        (404, "workspace_not_found")
    );
    assert_eq!(api.count().await, 0);
    let census = api.server.census();
    assert!(census.is_empty(), "{census}");

    let stopped = api.create().await;
    assert_eq!(stopped.post("/stop", json!({})).await.status, 200);
    assert_eq!(stopped.destroy().await.status, 200);
    assert_eq!(stopped.get().await.status, 404);
    api.finish().await;
}

/// Proves: LIFE-09
#[tokio::test]
async fn what_runs_may_end_politely_and_is_killed_when_it_does_not() {
    let api = Api::start().await;
    let polite = api.create().await;
    polite
        .post("/bash", json!({"command": "trap 'exit 0' TERM; sleep 1000 & wait", "background": true}))
        .await;
    moment(300).await;
    let begun = Instant::now();
    assert_eq!(polite.destroy().await.status, 200);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());

    let stubborn = api.create().await;
    let command = "trap '' TERM; while :; do sleep 1; done";
    stubborn.post("/bash", json!({"command": command, "background": true})).await;
    moment(300).await;
    let begun = Instant::now();
    let running = stubborn.post("/bash", json!({"command": command}));
    let destroy = async {
        moment(300).await;
        stubborn.destroy().await
    };
    let (call, destroyed) = tokio::join!(running, destroy);
    assert_eq!(destroyed.status, 200, "{}", destroyed.body);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // It was running when its workspace went away: an answer about that, not silence.
    assert!(call.status == 200 && call.body["exit_code"] != 0 || call.status == 502, "{}", call.body);
    assert_eq!(Sandbox::of(stubborn.id).count(), 0);
    api.finish().await;
}

#[tokio::test]
async fn many_who_destroy_the_same_share_the_outcome() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let answers = futures::future::join_all((0..8).map(|_| workspace.destroy())).await;
    assert!(answers.iter().any(|answer| answer.status == 200));
    assert!(answers.iter().all(|answer| [200, 404].contains(&answer.status)));
    assert_eq!(workspace.get().await.status, 404);
    api.finish().await;
}

/// A destroy of something half made cancels it.
#[tokio::test]
async fn a_workspace_can_be_destroyed_while_it_is_made() {
    let api = Api::start().await;
    for pause in [0, 10, 40] {
        let created = api.post(&format!("{WORKSPACES}?wait=false"), &json!({})).await;
        moment(pause).await;
        let path = format!("{WORKSPACES}/{}", created.body["id"].as_str().unwrap());
        assert_eq!(api.delete(&path).await.status, 200);
        assert_eq!(api.get(&path).await.status, 404);
    }
    let census = api.server.census();
    assert!(census.is_empty(), "{census}");
    api.finish().await;
}
