//! Sandboxes under gVisor that are made before anybody asks, and copies of them.

use std::time::Duration;

use emergent_test_support::{TestDocker, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::host::{Host, WORKSPACES};

pub(crate) async fn until_ready(host: &Host, ready: u64) -> Value {
    let (pool, _) = eventually("the pool is full", Duration::from_secs(120), async || {
        let pool = host.get("/api/v1/warm-pool").await;
        (pool["ready"] == ready && pool["creating"] == 0).then_some(pool)
    })
    .await;
    pool
}

/// Proves: LIFE-03, ORCH-19
#[tokio::test]
async fn a_create_takes_a_sandbox_that_is_there() {
    let settings = [("WORKSPACE_WARM_POOL_SIZE", 1)];
    let host = Host::start_with_all_providers(TestDocker::get(), &settings).await;
    until_ready(&host, 1).await;
    let body = json!({"env": {"COLOUR": "green"}});
    let made = host.call(Method::POST, WORKSPACES, Some(&body)).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!((&made.body["provider"], &made.body["isolation"]), (&json!("gvisor"), &json!("gvisor")));
    assert_eq!(host.bash(&made.body, "echo $COLOUR").await, "green");
    let pool = until_ready(&host, 1).await;
    assert_eq!((&pool["hits"], &pool["misses"]["provider"]), (&json!(1), &json!(0)), "{pool}");
    // Somebody who wants a weaker wall does not get this one.
    let other = host.call(Method::POST, WORKSPACES, Some(&json!({"provider": "local"}))).await;
    assert_eq!((other.status, &other.body["provider"]), (201, &json!("local")), "{}", other.body);
    assert_eq!(host.get("/api/v1/warm-pool").await["misses"]["provider"], 1);
    host.destroy(&made.body).await;
    host.destroy(&other.body).await;
    let resized = host.call(Method::PUT, "/api/v1/warm-pool", Some(&json!({"size": 0}))).await;
    assert_eq!(resized.status, 200, "{}", resized.body);
    until_ready(&host, 0).await;
    host.finish().await;
}

#[tokio::test]
async fn a_fork_has_the_files_and_the_wall_of_its_origin() {
    let host = Host::start().await;
    let origin = host.create(json!({})).await;
    host.bash(&origin, "echo one > file").await;
    let path = format!("{WORKSPACES}/{}/fork", origin["id"].as_str().unwrap());
    let forks = host.call(Method::POST, &path, Some(&json!({"count": 2}))).await;
    assert_eq!(forks.status, 201, "{}", forks.body);
    let forks = forks.body["items"].as_array().unwrap().clone();
    assert_eq!(forks.len(), 2);
    for fork in &forks {
        assert_eq!(fork["isolation"], "gvisor", "{fork}");
        assert_eq!(host.bash(fork, "cat file; echo two > file").await, "one");
    }
    assert_eq!(host.bash(&origin, "cat file").await, "one");
    assert_eq!(host.get("/api/v1/agent/snapshots").await["items"], json!([]));
    for workspace in forks.iter().chain([&origin]) {
        host.destroy(workspace).await;
    }
    host.finish().await;
}
