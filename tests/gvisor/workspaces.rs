//! What a user with Docker and runsc gets without saying anything.

use emergent_test_support::TestDocker;
use serde_json::{Value, json};

use crate::host::{Host, WORKSPACES};

/// Proves: GVIS-01, GVIS-04, GVIS-05, GVIS-06, GVIS-07, GVIS-08, GVIS-11, MIGR-1.5
/// Proves: DESIGN-1.4, DESIGN-7.7, RISK-E2B-4
#[tokio::test]
async fn gvisor_is_what_one_gets() {
    let host = Host::start_with_all_providers(TestDocker::get(), &[]).await;
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

    let id = made["id"].as_str().unwrap();
    let disk = host.server.data_dir().join("containers/gvisor").join(id).join("disk.img");
    assert!(disk.is_file(), "{}", disk.display());
    let volume = format!("agent-workspace-{id}");
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
    assert!(!disk.exists(), "what it has written is gone at once");
    host.finish().await;
}

/// Who says nothing of limits gets the default ones, and Docker is told of them.
///
/// Proves: GVIS-01
#[tokio::test]
async fn limits_that_nobody_names() {
    const GIB: u64 = 1 << 30;
    let host = Host::start().await;
    let made = host.call(reqwest::Method::POST, WORKSPACES, Some(&json!({"provider": "gvisor"}))).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let made = made.body;
    let ours = format!("label=emergent.workspace={}", made["id"].as_str().unwrap());
    let container = host.docker(&["ps", "-q", "--filter", &ours]);
    let seen: Value = serde_json::from_str(&host.docker(&["inspect", container.trim()])).unwrap();
    let told = &seen[0]["HostConfig"];
    assert_eq!(told["Runtime"], "runsc");
    // Where the machine has fewer processors it is told as a share of time.
    let cpus = told["NanoCpus"].as_u64().unwrap() + told["CpuQuota"].as_u64().unwrap() * 10_000;
    assert_eq!(cpus, 2_000_000_000, "{told}");
    // The wall stands a little above: reaching it would end the sandbox and not one process.
    let memory = told["Memory"].as_u64().unwrap();
    assert!((4 * GIB..5 * GIB).contains(&memory), "{memory}");
    assert_eq!(told["MemorySwap"], told["Memory"]);
    let disk = host.bash(&made, "df -B1 --output=size /workspace | tail -n 1").await;
    let disk: u64 = disk.trim().parse().unwrap();
    assert!((9 * GIB..=10 * GIB).contains(&disk), "{disk}");
    host.destroy(&made).await;
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
    host.bash(&made, "until test -s count; do sleep 0.1; done").await;
    let path = format!("/api/v1/agent/workspaces/{}/stop", made["id"].as_str().unwrap());
    let stopped = host.call(reqwest::Method::POST, &path, Some(&json!({"mode": "memory"}))).await;
    assert_eq!((stopped.status, &stopped.body["status"]), (200, &json!("stopped")), "{}", stopped.body);
    host.post(&made, "resume").await;
    let count = "a=$(cat count); sleep 2; b=$(cat count); test $b -gt $a && echo goes on";
    assert_eq!(host.bash(&made, count).await, "goes on");
    host.destroy(&made).await;
    host.finish().await;
}

/// What runs workspaces is told, and the server says whether there is KVM. gVisor needs none.
///
/// Proves: GVIS-14
#[tokio::test]
async fn gvisor_works_without_kvm_and_says_how() {
    let host = Host::start().await;
    let runtime = host.provider("gvisor").await["capabilities"]["runtime"].clone();
    assert_eq!(
        (&runtime["name"], &runtime["platform"], &runtime["network"]),
        (&json!("runsc"), &json!("systrap"), &json!("host"))
    );
    // Releases are named after their day, whoever has packaged them.
    assert!(runtime["version"].as_str().unwrap().contains("20"), "{runtime}");
    let made = host.create(json!({"provider": "gvisor"})).await;
    assert_eq!(host.bash(&made, "ls /dev/kvm 2>/dev/null || echo none").await, "none");
    let is_there = std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
    let told = host.server.log().contains("KVM is not available here");
    assert_eq!(told, !is_there, "{}", host.server.log());
    host.destroy(&made).await;
    host.finish().await;
}
