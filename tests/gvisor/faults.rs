//! What is lost when something dies.

use std::time::Duration;

use emergent_test_support::eventually;
use reqwest::Method;
use serde_json::{Value, json};

use crate::host::{Host, WORKSPACES};

pub(crate) const BACKGROUND: &str =
    "echo $$ > /workspace/pid; i=0; while sleep 0.2; do i=$((i+1)); echo $i > /workspace/alive; done";
pub(crate) const STILL_ALIVE: &str =
    "a=$(cat alive); sleep 1; b=$(cat alive); test \"$a\" != \"$b\" && echo alive";

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
    assert_eq!(answers_again(&host, &made, "cat /workspace/file").await, "kept\n");
    let warnings = host.look(&made).await["warnings"].to_string();
    assert!(warnings.contains("again"), "{warnings}");
    host.destroy(&made).await;
    host.finish().await;
}

/// What a command prints once the workspace answers again.
async fn answers_again(host: &Host, workspace: &Value, command: &str) -> String {
    let path = format!("{WORKSPACES}/{}/bash", workspace["id"].as_str().unwrap());
    let (answer, _) = eventually("it answers again", Duration::from_secs(60), async || {
        let answer = host.call(Method::POST, &path, Some(&json!({"command": command}))).await;
        (answer.status == 200).then_some(answer.body)
    })
    .await;
    answer["stdout"].as_str().unwrap().to_owned()
}

/// One that the host ends for want of memory is started again on its disk, and says why. What stands before that
/// inside is told to look away first.
#[tokio::test]
async fn a_sandbox_that_reaches_its_wall_is_started_again() {
    let host = Host::start().await;
    let made = host.create(json!({})).await;
    host.bash(&made, "echo kept > /workspace/file; sync").await;
    let hog = "kill -STOP 1; python3 -c 'x = bytearray(1 << 30); input()'";
    let path = format!("{WORKSPACES}/{}/bash", made["id"].as_str().unwrap());
    let lost = host.call(Method::POST, &path, Some(&json!({"command": hog}))).await;
    assert_ne!((lost.status, &lost.body["exit_code"]), (200, &json!(0)), "{}", lost.body);
    assert_eq!(answers_again(&host, &made, "cat /workspace/file").await, "kept\n");
    let now = host.look(&made).await;
    assert_eq!(now["status"], "ready", "{now}");
    assert!(now["warnings"].to_string().contains("oom_restarted"), "{now}");
    host.destroy(&made).await;
    host.finish().await;
}
