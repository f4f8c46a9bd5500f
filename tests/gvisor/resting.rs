//! Sandboxes under gVisor that stand still until somebody comes: they take no processor time meanwhile, and go on
//! within the time that a warm start has.

use std::time::{Duration, Instant};

use emergent_test_support::eventually;
use reqwest::Method;
use serde_json::{Value, json};

use crate::host::{Host, WORKSPACES};

/// How long a create may take that finds a sandbox waiting. The figures are the bench's; here others use the
/// machine too.
const WARM_LIMIT: Duration = Duration::from_secs(1);

async fn until_resting(host: &Host, count: u64) -> Value {
    let (pool, _) = eventually("members stand still", Duration::from_secs(120), async || {
        let pool = host.get("/api/v1/warm-pool").await;
        (pool["ready"] == count && pool["resting"] == count && pool["creating"] == 0).then_some(pool)
    })
    .await;
    pool
}

/// A figure of gVisor's sandboxes.
async fn figure(host: &Host, name: &str) -> Option<f64> {
    let probe = host.server.probe();
    let text = probe.request(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("{name}{{provider=\"gvisor\"")))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

async fn claimed(host: &Host) -> Value {
    let clock = Instant::now();
    let made = host.call(Method::POST, WORKSPACES, Some(&json!({"provider": "gvisor"}))).await;
    let took = clock.elapsed();
    assert_eq!(made.status, 201, "{}", made.body);
    eprintln!("a member that stood still was handed out in {took:.1?}");
    assert!(took < WARM_LIMIT, "{took:?}");
    made.body
}

async fn members_rest(mut host: Host) {
    until_resting(&host, 2).await;
    let (cpu, _) =
        eventually("an idle sandbox takes no processor time", Duration::from_secs(60), async || {
            let resting = figure(&host, "emergent_resting_workspaces").await?;
            let cpu = figure(&host, "emergent_idle_workspace_cpu_cores").await?;
            (resting == 2.0 && cpu < 0.01).then_some(cpu)
        })
        .await;
    let memory = figure(&host, "emergent_idle_workspace_memory_bytes").await.unwrap();
    eprintln!("at rest: {cpu} processors, {:.0} MiB", memory / 1024.0 / 1024.0);
    let made = claimed(&host).await;
    assert_eq!(host.bash(&made, "echo up").await, "up");
    let pool = until_resting(&host, 2).await;
    assert_eq!((&pool["hits"], &pool["misses"]["empty"]), (&json!(1), &json!(0)), "{pool}");

    // A server that is killed leaves them to the next.
    host.server.kill();
    host.server.start_again().await;
    until_resting(&host, 2).await;
    let adopted = claimed(&host).await;
    assert_eq!(host.bash(&adopted, "echo up").await, "up");
    assert_eq!(host.bash(&made, "echo up").await, "up");
    until_resting(&host, 2).await;
    host.destroy(&made).await;
    host.destroy(&adopted).await;
    let resized = host.call(Method::PUT, "/api/v1/warm-pool", Some(&json!({"size": 0}))).await;
    assert_eq!(resized.status, 200, "{}", resized.body);
    until_resting(&host, 0).await;
    finish(host).await;
}

async fn finish(host: Host) {
    match host.docker {
        Some(_) => host.finish().await,
        None => host.server.finish().await,
    }
}

const POOL: (&str, u64) = ("WORKSPACE_WARM_POOL_SIZE", 2);
const PAUSE: (&str, u64) = ("WORKSPACE_IDLE_PAUSE_SECONDS", 1);

/// None of them is kept awake, so each of them has to go on.
const ASLEEP: (&str, u64) = ("WORKSPACE_WARM_POOL_AWAKE", 0);

/// Proves: LIFE-04
#[tokio::test]
async fn members_rest_under_docker() {
    members_rest(Host::start_with_settings(&[POOL, ASLEEP]).await).await;
}

#[tokio::test]
async fn members_rest_without_docker() {
    members_rest(without_docker(&[POOL, ASLEEP]).await).await;
}

async fn without_docker(settings: &[(&'static str, u64)]) -> Host {
    let mut options = Host::options_without_docker();
    for (name, value) in settings {
        options = options.with(name, value);
    }
    Host { server: options.start().await, docker: None }
}

/// What nobody uses stands still and goes on with the next call; everything else can be done to it as well.
async fn idle_workspaces_rest(mut host: Host) {
    let made = host.create(json!({"provider": "gvisor", "warm_start": false})).await;
    let resting = async |host: &Host| {
        eventually("it stands still", Duration::from_secs(60), async || {
            (figure(host, "emergent_resting_workspaces").await? == 1.0).then_some(())
        })
        .await;
    };
    resting(&host).await;
    let clock = Instant::now();
    assert_eq!(host.bash(&made, "echo kept > file; cat file").await, "kept");
    eprintln!("a call to what stood still was answered in {:.1?}", clock.elapsed());
    resting(&host).await;
    host.post(&made, "stop").await;
    host.post(&made, "resume").await;
    assert_eq!(host.bash(&made, "cat file").await, "kept");
    resting(&host).await;
    host.server.kill();
    host.server.start_again().await;
    assert_eq!(host.bash(&made, "cat file").await, "kept");
    resting(&host).await;
    host.destroy(&made).await;
    finish(host).await;
}

#[tokio::test]
async fn idle_workspaces_rest_under_docker() {
    idle_workspaces_rest(Host::start_with_settings(&[("WORKSPACE_WARM_POOL_SIZE", 0), PAUSE]).await).await;
}

#[tokio::test]
async fn idle_workspaces_rest_without_docker() {
    idle_workspaces_rest(without_docker(&[PAUSE]).await).await;
}

/// Init holds the streams of the first connection beyond the agent's end; that it has ended is known all the same.
#[tokio::test]
async fn a_dead_agent_is_replaced_at_once() {
    let host = Host::start().await;
    let made = host.create(json!({})).await;
    let path = format!("{WORKSPACES}/{}/bash", made["id"].as_str().unwrap());
    for _ in 0..2 {
        let clock = Instant::now();
        let agents = "$(grep -lzx serve /proc/[0-9]*/cmdline | cut -d/ -f3)";
        let killed =
            host.call(Method::POST, &path, Some(&json!({"command": format!("kill -9 {agents}")}))).await;
        assert_eq!(killed.status, 502, "{}", killed.body);
        eventually("another answers", Duration::from_secs(10), async || {
            let answer = host.call(Method::POST, &path, Some(&json!({"command": "echo up"}))).await;
            (answer.body["stdout"] == "up\n").then_some(())
        })
        .await;
        assert!(clock.elapsed() < Duration::from_secs(10), "{:?}", clock.elapsed());
    }
    host.destroy(&made).await;
    host.finish().await;
}

/// Whoever has removed the shell is told that, and not that the request is wrong.
#[tokio::test]
async fn a_workspace_without_a_shell_says_so() {
    let host = Host::start().await;
    let made = host.create(json!({})).await;
    // The shell that does this has what it needs in memory.
    host.bash(&made, "rm -rf /bin /usr/bin/bash /usr/bin/sh /lib /lib64 2>/dev/null; true").await;
    let path = format!("{WORKSPACES}/{}/bash", made["id"].as_str().unwrap());
    let refused = host.call(Method::POST, &path, Some(&json!({"command": "true"}))).await;
    assert_eq!(refused.failure(), (409, "program_missing"), "{}", refused.body);
    assert!(refused.body.to_string().contains("shell"), "{}", refused.body);
    host.destroy(&made).await;
    host.finish().await;
}
