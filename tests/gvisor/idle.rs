//! What a workspace costs that nobody uses, and what its next call finds.

use std::fs;
use std::time::{Duration, Instant};

use emergent_test_support::eventually;
use serde_json::{Value, json};

use crate::host::Host;

/// How long streams are held without use.
const IDLE_SECONDS: u64 = 2;

/// Processes of the host's that hold a stream into a container open, with their resident memory in bytes. The
/// engine runs in a PID namespace below this one.
fn relays(container: &str) -> Vec<(u32, u64)> {
    let is_relay = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words.contains(&b"exec".as_slice()) && words.contains(&container.as_bytes())
    };
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(is_relay).map(|pid| (pid, resident(pid))).collect()
}

fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().unwrap_or(0);
    kib << 10
}

impl Host {
    /// The id of a workspace's container.
    fn container(&self, workspace: &Value) -> String {
        let ours = format!("label=emergent.workspace={}", workspace["id"].as_str().unwrap());
        self.docker(&["ps", "-q", "--no-trunc", "--filter", &ours]).trim().to_owned()
    }

    /// Waits until no process holds a stream of this workspace's open.
    async fn is_let_go(&self, workspace: &Value) {
        let container = self.container(workspace);
        eventually("its stream is let go", Duration::from_secs(20), async || {
            relays(&container).is_empty().then_some(())
        })
        .await;
    }
}

/// A stream that nobody uses is let go with the process that holds it. The next call has its answer, and its
/// command finds the services of the server.
#[tokio::test]
async fn an_idle_stream_is_let_go_and_the_next_call_makes_another() {
    let mut host = Host::start_with_settings(&[("WORKSPACE_STREAM_IDLE_SECONDS", IDLE_SECONDS)]).await;
    let made = host.create(json!({})).await;
    let container = host.container(&made);
    assert_eq!(host.bash(&made, "echo first").await, "first");
    assert_eq!(relays(&container), [], "the first stream is the container's own and costs no process");

    host.server.kill();
    host.server.start_again().await;
    assert_eq!(host.bash(&made, "echo second").await, "second");
    let held = relays(&container);
    let bytes: u64 = held.iter().map(|(_, bytes)| bytes).sum();
    assert!(bytes > 4 << 20, "one that is worth letting go: {held:?}");
    host.is_let_go(&made).await;

    let clock = Instant::now();
    let found = host.bash(&made, "ls /run/emergent/services; echo third").await;
    let took = clock.elapsed();
    assert!(found.lines().count() > 1 && found.ends_with("third"), "services are there at once: {found}");
    println!("held: {} MB in {} processes; the call after it was let go: {took:?}", bytes >> 20, held.len());
    assert!(took < Duration::from_secs(2), "{took:?}");
    host.is_let_go(&made).await;
    host.post(&made, "stop").await;
    host.post(&made, "resume").await;
    assert_eq!(host.bash(&made, "echo fourth").await, "fourth");
    host.destroy(&made).await;
    host.finish().await;
}

/// Whatever goes on in a workspace holds its stream: a background process, which may want a service, and a
/// call that is not over.
#[tokio::test]
async fn what_goes_on_holds_the_stream() {
    let mut host = Host::start_with_settings(&[("WORKSPACE_STREAM_IDLE_SECONDS", IDLE_SECONDS)]).await;
    let idle = host.create(json!({})).await;
    let busy = host.create(json!({})).await;
    let watched = host.create(json!({})).await;
    host.server.kill();
    host.server.start_again().await;
    let background = "i=0; while sleep 0.2; do i=$((i+1)); echo $i > /workspace/count; done";
    let started = host.tool(&busy, "bash", json!({"command": background, "background": true})).await;
    let path = format!("/api/v1/agent/workspaces/{}/watch?path=/workspace", watched["id"].as_str().unwrap());
    let probe = host.server.probe();
    let mut watch = probe.request(reqwest::Method::GET, &path).send().await.unwrap();
    assert_eq!(watch.status(), 200);
    host.bash(&idle, "true").await;

    host.is_let_go(&idle).await;
    tokio::time::sleep(Duration::from_secs(2 * IDLE_SECONDS)).await;
    for workspace in [&busy, &watched] {
        assert_ne!(relays(&host.container(workspace)), [], "{workspace}");
    }
    let count = "a=$(cat count); sleep 1; b=$(cat count); test $b -gt $a && echo goes on";
    assert_eq!(host.bash(&busy, count).await, "goes on");
    // The watch is the one that was begun, and hears of what happens now.
    host.tool(&watched, "write", json!({"file_path": "/workspace/seen", "content": "x"})).await;
    let heard = tokio::time::timeout(Duration::from_secs(10), async {
        let mut heard = String::new();
        while !heard.contains("seen") {
            heard.push_str(&String::from_utf8_lossy(&watch.chunk().await.unwrap().expect("goes on")));
        }
    });
    heard.await.expect("the watch still hears");

    drop(watch);
    let processes = format!("processes/{}", started["process_id"]);
    let path = format!("/api/v1/agent/workspaces/{}/{processes}", busy["id"].as_str().unwrap());
    let ended = host.call(reqwest::Method::DELETE, &path, None).await;
    assert!(ended.status < 300, "{}", ended.body);
    for workspace in [&busy, &watched] {
        host.is_let_go(workspace).await;
        host.destroy(workspace).await;
    }
    host.destroy(&idle).await;
    host.finish().await;
}
