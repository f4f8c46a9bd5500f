//! Workspaces switched off.

use emergent_test_support::{Sandbox, TestServerOptions};
use serde_json::json;

use crate::api::{Api, WORKSPACES};

/// Proves: ROLL-1
#[tokio::test]
async fn every_endpoint_is_404_and_sandboxes_are_untouched() {
    let mut api = Api::start().await;
    let workspace = api.create_with(json!({"ttl_seconds": 1})).await;
    let id = workspace.id;
    assert!(api.server.terminate().await.success());
    assert!(Sandbox::of(id).count() > 0);

    api.server.set_options(TestServerOptions::default().with("ENABLE_AGENT_WORKSPACES", "false"));
    api.restart().await;
    for path in [WORKSPACES.to_owned(), format!("{WORKSPACES}/{id}"), format!("{WORKSPACES}/providers")] {
        assert_eq!(api.get(&path).await.failure(), (404, "feature_disabled"), "{path}");
    }
    assert_eq!(api.post(WORKSPACES, &json!({})).await.failure(), (404, "feature_disabled"));
    assert_eq!(api.delete(&format!("{WORKSPACES}/{id}")).await.failure(), (404, "feature_disabled"));
    for path in ["/healthz", "/readyz", "/api/v1/openapi.json"] {
        assert_eq!(api.get(path).await.status, 200, "{path}");
    }
    // Long expired, and nobody looks after it.
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    assert!(Sandbox::of(id).count() > 0);
    assert!(api.server.terminate().await.success());
    assert!(Sandbox::of(id).count() > 0);

    api.server.set_options(TestServerOptions::default());
    api.restart().await;
    assert_eq!(api.get(WORKSPACES).await.status, 200);
    api.finish().await;
}
