//! What a user with Docker and runsc gets without saying anything.

use serde_json::json;

use crate::host::Host;

/// Proves: GVIS-01, GVIS-04, GVIS-05, GVIS-06, GVIS-07, GVIS-08, GVIS-11, MIGR-1.5
/// Proves: DESIGN-1.4, DESIGN-7.7, RISK-E2B-4
#[tokio::test]
async fn gvisor_is_what_one_gets() {
    let host = Host::start().await;
    let provider = host.provider("gvisor").await;
    assert_eq!((&provider["status"], &provider["isolation"]), (&json!("healthy"), &json!("gvisor")));
    let made = host.create(json!({})).await;
    assert_eq!((&made["provider"], &made["isolation"]), (&json!("gvisor"), &json!("gvisor")));
    let attempts = made["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 1, "nothing stronger was passed over: {attempts:?}");
    assert_eq!((&made["disk_enforcement"], &made["persistence"]), (&json!("hard"), &json!("full")));

    // gVisor's kernel answers, not the host's.
    assert!(
        host.bash(&made, "dmesg 2>/dev/null || cat /proc/version").await.to_lowercase().contains("gvisor")
    );
    let both = host.tool(&made, "bash", json!({"command": "echo out; echo err >&2; exit 3"})).await;
    assert_eq!(
        (&both["stdout"], &both["stderr"], &both["exit_code"]),
        (&json!("out\n"), &json!("err\n"), &json!(3))
    );
    host.tool(&made, "write", json!({"file_path": "src/a.py", "content": "print(6 * 7)\n"})).await;
    host.tool(&made, "edit", json!({"file_path": "src/a.py", "old_string": "7", "new_string": "8"})).await;
    let read = host.tool(&made, "read", json!({"file_path": "src/a.py"})).await;
    assert_eq!(read["content"], "1: print(6 * 8)");
    let found = host.tool(&made, "glob", json!({"pattern": "**/*.py"})).await;
    assert_eq!(found["files"], json!(["/workspace/src/a.py"]));
    let matches = host.tool(&made, "grep", json!({"pattern": "6 . 8"})).await;
    assert_eq!(matches["matches"][0]["line"], 1);

    let volume = format!("agent-workspace-{}", made["id"].as_str().unwrap());
    assert!(host.docker(&["volume", "ls", "-q"]).lines().any(|name| name == volume));
    // Of the 128 MiB that it may use, all of it can be, and no more.
    let full = host
        .tool(&made, "bash", json!({"command": "head -c 200000000 /dev/zero > big; rm big; exit 9"}))
        .await;
    assert!(full["stderr"].as_str().unwrap().contains("No space left on device"), "{full}");
    host.bash(&made, "echo kept > /workspace/file; echo home > /home/file; echo root > /opt/file").await;
    host.post(&made, "stop").await;
    let ours = format!("label=emergent.workspace={}", made["id"].as_str().unwrap());
    assert_eq!(host.docker(&["ps", "-aq", "--filter", &ours]), "", "its container is gone");
    host.post(&made, "resume").await;
    let kept = host.bash(&made, "cat /workspace/file /home/file /opt/file").await;
    assert_eq!(kept, "kept\nhome\nroot");
    host.destroy(&made).await;
    assert!(!host.docker(&["volume", "ls", "-q"]).lines().any(|name| name == volume));
    host.finish().await;
}

#[tokio::test]
async fn an_image_that_is_not_there_is_told_by_its_name() {
    let host = Host::start().await;
    let body = json!({"provider": "gvisor", "base_image": "127.0.0.1:1/nobody/nothing:1"});
    let answer = host.call(reqwest::Method::POST, "/api/v1/agent/workspaces", Some(&body)).await;
    assert_eq!((answer.status, answer.code()), (404, "image_not_found"), "{}", answer.body);
    assert!(answer.body.to_string().contains("127.0.0.1:1/nobody/nothing:1"), "{}", answer.body);
    host.finish().await;
}

/// What runs stands still and goes on, with its memory.
#[tokio::test]
async fn a_stop_that_keeps_memory() {
    let host = Host::start().await;
    let made = host.create(json!({})).await;
    let started = json!({"command": "i=0; while sleep 0.1; do i=$((i+1)); echo $i > /workspace/count; done", "background": true});
    host.tool(&made, "bash", started).await;
    let path = format!("/api/v1/agent/workspaces/{}/stop", made["id"].as_str().unwrap());
    let stopped = host.call(reqwest::Method::POST, &path, Some(&json!({"mode": "memory"}))).await;
    assert_eq!((stopped.status, &stopped.body["status"]), (200, &json!("stopped")), "{}", stopped.body);
    host.post(&made, "resume").await;
    let count = "a=$(cat count); sleep 2; b=$(cat count); test $b -gt $a && echo goes on";
    assert_eq!(host.bash(&made, count).await, "goes on");
    host.destroy(&made).await;
    host.finish().await;
}
