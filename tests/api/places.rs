//! How many workspaces there may be at once.

use emergent_test_support::TestServerOptions;
use serde_json::json;

use crate::api::{Api, WORKSPACES};

/// Proves: LIFE-05, RISK-RESOURCES-1
#[tokio::test]
async fn at_the_limit_a_create_is_refused_until_a_place_is_free() {
    let api = Api::start_with(TestServerOptions::default().with("WORKSPACE_MAX_CONCURRENT", 2)).await;
    let first = api.create().await;
    let second = api.create().await;
    for path in [WORKSPACES.to_owned(), format!("{WORKSPACES}?wait=false")] {
        let refused = api.post(&path, &json!({})).await;
        assert_eq!(refused.failure(), (429, "limit_reached"), "{}", refused.body);
        assert_eq!((refused.detail("active"), refused.detail("max")), (&json!(2), &json!(2)));
        let hint = refused.detail("hint").as_str().unwrap();
        assert!(hint.contains("wait") && hint.contains("destroy"), "{hint}");
        assert!(refused.headers.contains_key("retry-after"));
    }
    // A stopped one takes no place, until it is resumed.
    assert_eq!(first.post("/stop", json!({})).await.status, 200);
    let third = api.create().await;
    assert_eq!(first.post("/resume", json!({})).await.failure(), (429, "limit_reached"));
    assert_eq!(first.status().await, "stopped");
    assert_eq!(third.destroy().await.status, 200);
    assert_eq!(first.post("/resume", json!({})).await.status, 200);
    assert_eq!(second.sh("echo fine").await, "fine\n");
    api.finish().await;
}

/// Proves: LIFE-05
#[tokio::test]
async fn those_who_ask_at_once_cannot_pass_the_limit_together() {
    let api = Api::start_with(TestServerOptions::default().with("WORKSPACE_MAX_CONCURRENT", 3)).await;
    let small = json!({"resource_limits": {"cpu": "1", "memory": "128M", "disk": "64M"}});
    let answers = futures::future::join_all((0..12).map(|_| api.post(WORKSPACES, &small))).await;
    let made = answers.iter().filter(|answer| answer.status == 201).count();
    let refused = answers.iter().filter(|answer| answer.status == 429).count();
    assert_eq!((made, refused), (3, 9));
    assert_eq!(api.count().await, 3);
    api.finish().await;
}
