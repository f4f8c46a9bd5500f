//! Ending a command means ending everything it started.

use std::time::{Duration, Instant};

use emergent_protocol::v1;

use crate::support::{
    Binary, BinaryOptions, Cgroup, Sandbox, eventually, exec_request, is_alive, line_of, shell, text_of,
};

/// Starts processes that hide: in the background, in a session of their own, orphaned by a
/// double fork, deaf to SIGTERM. Each leaves its number in a file.
const HIDERS: &str = r#"
    trap '' TERM
    sleep 601 & echo $! > plain
    setsid bash -c 'echo $$ > setsid; exec sleep 602' &
    ( ( setsid bash -c 'trap "" TERM HUP; echo $$ > double; while :; do sleep 603; done' & ) & )
    echo $$ > main
    sleep 604
"#;

async fn hidden(sandbox: &Sandbox) -> Vec<String> {
    let mut pids = Vec::new();
    for name in ["plain", "setsid", "double", "main"] {
        pids.push(line_of(&sandbox.path(name)).await);
    }
    assert!(pids.iter().all(|pid| is_alive(pid)), "{pids:?}");
    pids
}

fn request(text: &str, timeout_ms: u64) -> v1::ExecRequest {
    v1::ExecRequest { timeout_ms, ..exec_request(text) }
}

#[tokio::test]
async fn a_timeout_ends_the_whole_tree() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let started = Instant::now();
    let (exited, pids) =
        tokio::join!(client.exec(request(&format!("echo so far; {HIDERS}"), 1000)), hidden(&sandbox),);
    let exited = exited.expect("an answer");
    assert!(exited.timed_out);
    assert_eq!(text_of(exited.stdout.as_ref()), "so far\n");
    // Some ignore SIGTERM, so the whole grace period is used, and no more.
    let took = started.elapsed();
    assert!((Duration::from_millis(5900)..Duration::from_secs(9)).contains(&took), "took {took:?}");
    assert_eq!(exited.exit.expect("an exit").code, 137);
    assert!(!pids.iter().any(|pid| is_alive(pid)), "{pids:?}");
}

#[tokio::test]
async fn a_polite_tree_ends_at_once_and_has_last_words() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let started = Instant::now();
    let text = "trap 'echo bye; exit 5' TERM; setsid sleep 600 & wait";
    let exited = client.exec(request(text, 300)).await.expect("an answer");
    assert!(exited.timed_out && started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert_eq!(text_of(exited.stdout.as_ref()), "bye\n");
    assert_eq!(exited.exit.expect("an exit").code, 5);
}

#[tokio::test]
async fn a_dropped_call_ends_the_whole_tree() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let events = client.stub.exec(exec_request(HIDERS)).await.expect("starts");
    let pids = hidden(&sandbox).await;
    drop(events);
    eventually("all have ended", || async { !pids.iter().any(|pid| is_alive(pid)) }).await;
    assert_eq!(client.sh("echo others go on").await, "others go on");
}

#[tokio::test]
async fn a_lost_connection_ends_its_commands() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let _events = client.stub.exec(exec_request("echo $$ > main; sleep 600")).await.expect("starts");
    let pid = line_of(&sandbox.path("main")).await;
    client.cut();
    eventually("it has ended", || async { !is_alive(&pid) }).await;
}

#[tokio::test]
async fn a_killed_supervisor_is_an_answer() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let exited = client.run("sleep 600 & echo $! > child; kill -9 $PPID; sleep 601").await;
    assert_eq!(exited.exit.expect("an exit").code, 137);
    let child = line_of(&sandbox.path("child")).await;
    eventually("its session has ended", || async { !is_alive(&child) }).await;
}

/// A process that forks faster than it is looked for is stopped all the same.
#[tokio::test]
async fn what_forks_all_the_time_is_ended() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    // Each generation is one process that starts the next and goes: never more than a few.
    let text = "trap '' TERM; chain() { echo x >> links; sleep 0.01; chain & }; chain; sleep 600";
    let exited = client.exec(request(text, 1000)).await.expect("an answer");
    assert!(exited.timed_out);
    let length = || std::fs::metadata(sandbox.path("links")).expect("written").len();
    let before = length();
    assert!(before > 20);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(before, length());
}

/// At the process limit of its sandbox a fork bomb leaves the agent what it needs to end it.
#[tokio::test]
async fn a_fork_bomb_is_ended() {
    let cgroup = Cgroup::with_processes(150);
    let options = BinaryOptions { cgroup: Some(cgroup.members()), ..Default::default() };
    let binary = Binary::start(options).await;
    let mut client = binary.client().await;
    let started = Instant::now();
    let bomb = "trap '' TERM; bomb() { bomb | bomb & }; bomb; sleep 600";
    let exited = client.exec(request(bomb, 1500)).await.expect("an answer");
    assert!(exited.timed_out);
    assert!(started.elapsed() < Duration::from_secs(20), "took {:?}", started.elapsed());
    assert_eq!(client.sh("echo alive").await, "alive");
    let members = std::fs::read_to_string(cgroup.members()).expect("readable");
    assert!(members.lines().count() <= 4, "left over: {members}");
    drop((client, binary, cgroup));
}

#[tokio::test]
async fn a_background_process_is_signalled_with_its_children() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let request = v1::StartProcessRequest { command: Some(shell(HIDERS)) };
    let process_id = client.stub.start_process(request).await.expect("starts").into_inner().process_id;
    let pids = hidden(&sandbox).await;
    let signal = |signal| v1::SignalProcessRequest { process_id, signal };
    let delivered = client.stub.signal_process(signal(9)).await.expect("signals").into_inner().delivered;
    assert!(delivered >= 4, "{delivered}");
    eventually("all have ended", || async { !pids.iter().any(|pid| is_alive(pid)) }).await;
    eventually("nothing is left to signal", || {
        let mut stub = client.stub.clone();
        async move { stub.signal_process(signal(15)).await.expect("is known").into_inner().delivered == 0 }
    })
    .await;
}
