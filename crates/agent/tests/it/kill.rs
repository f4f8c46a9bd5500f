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

/// Whoever edits huge files, and whoever waits to read them, holds up nobody's end.
#[tokio::test]
async fn long_file_work_does_not_delay_the_end_of_a_command() {
    let binary = Binary::start(BinaryOptions::default()).await;
    let mut client = binary.client().await;
    // Text to begin with, and then a hole that takes minutes to edit: nothing of it is on the disk.
    // Several, because edits of one file wait for each other.
    client.sh("for n in {0..15}; do yes text | head -c 8192 > huge$n; truncate -s 200G huge$n; done").await;
    let (mut busy, mut reading) = (tokio::task::JoinSet::new(), tokio::task::JoinSet::new());
    for number in 0..16 {
        let path = format!("huge{number}");
        let (mut reader, mut editor) = (client.stub.clone(), client.stub.clone());
        let page = v1::ReadPageRequest { path: path.clone(), offset: 0, limit: 1 };
        reading.spawn(async move { reader.read_page(page).await.map(drop) });
        let edit = v1::EditRequest {
            path,
            old_string: "nowhere".to_owned(),
            new_string: "x".to_owned(),
            ..Default::default()
        };
        busy.spawn(async move { editor.edit(edit).await.map(drop) });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let started = Instant::now();
    let exited = client.exec(request("sleep 600", 500)).await.expect("an answer");
    assert!(exited.timed_out);
    assert!(started.elapsed() < Duration::from_secs(5), "took {:?}", started.elapsed());
    // Nor does it hold up what is short.
    client.write("small", b"x").await.expect("writes");
    assert!(started.elapsed() < Duration::from_secs(10), "took {:?}", started.elapsed());
    assert!(busy.try_join_next().is_none(), "they were not busy");
    busy.shutdown().await;
    reading.shutdown().await;
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
    // A moment later: one that is killed before it could say that the command runs is `spawn_failed`.
    let exited = client.run("sleep 600 & echo $! > child; sleep 0.3; kill -9 $PPID; sleep 601").await;
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

/// A crowd that a command has left behind is ended when the next one finds no room: nobody else could.
#[tokio::test]
async fn a_crowd_that_was_left_makes_room() {
    let cgroup = Cgroup::with_processes(1000);
    let options = BinaryOptions { cgroup: Some(cgroup.members()), ..Default::default() };
    let binary = Binary::start(options).await;
    let mut client = binary.client().await;
    let crowd = "for i in {1..100}; do sleep 600 > /dev/null 2>&1 & done";
    client.exec(request(crowd, 20_000)).await.expect("an answer");
    // There are more already: nothing can be started any more.
    cgroup.limit_processes(60);
    let exited = client.exec(request("/bin/echo alive", 5000)).await.expect("there is room");
    assert_eq!(exited.exit.expect("an exit").code, 0);
    let members = std::fs::read_to_string(cgroup.members()).expect("readable");
    assert!(members.lines().count() <= 8, "left over: {members}");
    drop((client, binary, cgroup));
}

#[tokio::test]
async fn a_background_process_is_signalled_with_its_children() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let request = v1::StartProcessRequest { command: Some(shell(HIDERS)) };
    let process_id = client.stub.start_process(request).await.expect("starts").into_inner().process_id;
    let pids = hidden(&sandbox).await;
    let signal = |signal| v1::SignalProcessRequest { process_id, signal, stdio_pid: 0 };
    let delivered = client.stub.signal_process(signal(9)).await.expect("signals").into_inner().delivered;
    assert!(delivered >= 4, "{delivered}");
    eventually("all have ended", || async { !pids.iter().any(|pid| is_alive(pid)) }).await;
    eventually("nothing is left to signal", || {
        let mut stub = client.stub.clone();
        async move { stub.signal_process(signal(15)).await.expect("is known").into_inner().delivered == 0 }
    })
    .await;
}
