//! A Docker that does not know gVisor.

use emergent_test_support::TestDocker;
use serde_json::json;

use crate::host::Host;

/// Proves: GVIS-02, GVIS-03
#[tokio::test]
async fn without_runsc_the_next_provider_serves_and_it_is_told() {
    let host = Host::start_with_all_providers(TestDocker::own_without_runsc(), &[]).await;
    let gvisor = host.provider("gvisor").await;
    assert_eq!(gvisor["status"], "unhealthy");
    assert!(gvisor["reason"].as_str().unwrap().contains("gVisor runtime not available"), "{gvisor}");

    let made = host.create(json!({})).await;
    assert_eq!((&made["provider"], &made["isolation"]), (&json!("docker"), &json!("container")));
    assert_eq!(made["attempts"][0]["provider"], "gvisor");
    assert!(made["attempts"][0]["reason"].as_str().unwrap().contains("gVisor runtime not available"));
    assert!(made["warnings"].to_string().contains("container"), "{made}");
    assert!(host.server.log().contains("fell back to provider docker"), "the step down is in the log");
    assert_eq!(host.bash(&made, "echo works").await, "works");

    // Nothing is run by another runtime for whoever wants this one.
    let create = "/api/v1/agent/workspaces";
    for demand in [json!({"provider": "gvisor"}), json!({"min_isolation": "gvisor"})] {
        let refused = host.call(reqwest::Method::POST, create, Some(&demand)).await;
        assert!(refused.status >= 400, "{demand}: {}", refused.body);
        assert!(refused.body.to_string().contains("gVisor runtime not available"), "{}", refused.body);
    }
    host.destroy(&made).await;
    host.finish().await;
}
