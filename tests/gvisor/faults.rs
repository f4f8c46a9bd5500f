//! What is lost when something dies.

use std::time::Duration;

use emergent_test_support::eventually;
use serde_json::json;

use crate::host::Host;

const BACKGROUND: &str = "echo $$ > /workspace/pid; while sleep 0.2; do date +%s%N > /workspace/alive; done";
const STILL_ALIVE: &str = "a=$(cat alive); sleep 1; b=$(cat alive); test \"$a\" != \"$b\" && echo alive";

#[tokio::test]
async fn workspaces_outlive_their_server() {
    let mut host = Host::start().await;
    let made = host.create(json!({})).await;
    host.tool(&made, "bash", json!({"command": BACKGROUND, "background": true})).await;
    host.server.kill();
    host.server.start_again().await;
    assert_eq!(host.look(&made).await["status"], "ready");
    assert_eq!(host.bash(&made, STILL_ALIVE).await, "alive");
    host.destroy(&made).await;
    host.finish().await;
}

/// A container that somebody has ended is started again on its disk, and the workspace says so.
#[tokio::test]
async fn a_lost_container_is_started_again() {
    let host = Host::start().await;
    let made = host.create(json!({})).await;
    host.bash(&made, "echo kept > /workspace/file; sync").await;
    let ours = format!("label=emergent.workspace={}", made["id"].as_str().unwrap());
    let container = host.docker(&["ps", "-q", "--filter", &ours]);
    host.docker(&["kill", container.trim()]);
    let (kept, _) = eventually("it answers again", Duration::from_secs(60), async || {
        let body = json!({"command": "cat /workspace/file"});
        let path = format!("/api/v1/agent/workspaces/{}/bash", made["id"].as_str().unwrap());
        let answer = host.call(reqwest::Method::POST, &path, Some(&body)).await;
        (answer.status == 200).then_some(answer.body)
    })
    .await;
    assert_eq!(kept["stdout"], "kept\n");
    let warnings = host.look(&made).await["warnings"].to_string();
    assert!(warnings.contains("again"), "{warnings}");
    host.destroy(&made).await;
    host.finish().await;
}
