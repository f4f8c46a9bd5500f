//! PID 1.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use emergent_protocol::v1;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Binary, BinaryOptions, KEY, eventually, exec_request, is_alive, line_of, shell};

fn kill(pid: u32) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process");
    kill_process(pid, Signal::KILL).expect("is ours");
}

#[tokio::test]
async fn the_key_is_nowhere_to_be_seen() {
    let binary = Binary::start(BinaryOptions::default()).await;
    let mut client = binary.client().await;
    let agent = binary.agent_pid().expect("an agent");
    let key = KEY.map(|byte| format!("{byte:02x}")).concat();
    for pid in [binary.pid(), agent] {
        for file in ["environ", "cmdline"] {
            let seen = fs::read(format!("/proc/{pid}/{file}")).expect("readable");
            let seen = String::from_utf8_lossy(&seen);
            assert!(!seen.contains(&key), "in {file} of {pid}: {seen}");
        }
    }
    assert_eq!(fs::read(format!("/proc/{agent}/environ")).expect("readable"), b"");
    assert_eq!(
        client.sh("cat /proc/self/environ | tr '\\0' '\\n' | grep -c -e KEY -e SECRET -e ^PATH=").await,
        "1"
    );
    let mode = fs::metadata(binary.socket()).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// The socket outlives the agent, and so do background processes.
#[tokio::test]
async fn an_agent_that_dies_is_started_again() {
    let binary = Binary::start(BinaryOptions::default()).await;
    let mut client = binary.client().await;
    let request = v1::StartProcessRequest { command: Some(shell("echo $$ > pid; exec sleep 600")) };
    client.stub.start_process(request).await.expect("starts");
    let background = line_of(&binary.workspace().join("pid")).await;
    let first = binary.agent_pid().expect("an agent");
    kill(first);
    // Connections made meanwhile wait; nothing is refused.
    let mut client = binary.client().await;
    assert_eq!(client.sh("echo again").await, "again");
    assert_ne!(binary.agent_pid(), Some(first));
    assert!(is_alive(&background));
    // The pace is bounded: one that dies all the time is not started in a tight loop.
    let started = Instant::now();
    for _ in 0..3 {
        let mut agent = None;
        eventually("there is an agent", || {
            agent = binary.agent_pid();
            async move { agent.is_some() }
        })
        .await;
        let agent = agent.expect("found");
        kill(agent);
        eventually("it has ended", || async { !is_alive(&agent.to_string()) }).await;
    }
    assert!(started.elapsed() > Duration::from_millis(500), "{:?}", started.elapsed());
}

/// Whoever is root in the sandbox can stop the agent, and nobody would be answered any more.
#[tokio::test]
async fn an_agent_that_was_stopped_goes_on() {
    let binary = Binary::start(BinaryOptions::default()).await;
    let mut client = binary.client().await;
    let agent = binary.agent_pid().expect("an agent");
    for _ in 0..3 {
        let pid = Pid::from_raw(agent.cast_signed()).expect("a process");
        kill_process(pid, Signal::STOP).expect("is ours");
        let answer = tokio::time::timeout(Duration::from_secs(10), client.sh("echo alive")).await;
        assert_eq!(answer.expect("it goes on"), "alive");
    }
    assert_eq!(binary.agent_pid(), Some(agent), "it is the same");
}

/// Neither can a command keep its own end from being told.
#[tokio::test]
async fn a_command_that_stops_its_parent_is_answered() {
    let binary = Binary::start(BinaryOptions::default()).await;
    let mut client = binary.client().await;
    let answer = tokio::time::timeout(Duration::from_secs(5), client.sh("kill -STOP $PPID; echo done"));
    assert_eq!(answer.await.expect("is answered"), "done");
    assert_eq!(client.sh("echo alive").await, "alive");
}

/// Whoever waited for them is gone: nobody else would end them, or ever count their time.
#[tokio::test]
async fn commands_of_an_agent_that_died_are_ended() {
    let binary = Binary::start(BinaryOptions::default()).await;
    let mut client = binary.client().await;
    let request = v1::StartProcessRequest { command: Some(shell("echo $$ > background; exec sleep 600")) };
    client.stub.start_process(request).await.expect("starts");
    // One that listens, and one that does not and has children elsewhere.
    let polite = "trap 'echo > bye; exit' TERM; echo $$ > polite; sleep 601 & wait";
    let deaf = "trap '' TERM; (setsid bash -c 'trap \"\" TERM; echo $$ > hidden; sleep 602; sleep 603' &); \
                echo $$ > deaf; sleep 604; sleep 605";
    let mut calls = Vec::new();
    for text in [polite, deaf] {
        calls.push(client.stub.exec(exec_request(text)).await.expect("starts"));
    }
    let pid = async |name: &str| line_of(&binary.workspace().join(name)).await;
    let (background, polite) = (pid("background").await, pid("polite").await);
    let deaf = [pid("deaf").await, pid("hidden").await];
    kill(binary.agent_pid().expect("an agent"));
    let died = Instant::now();
    eventually("it was asked", || async { binary.workspace().join("bye").exists() && !is_alive(&polite) })
        .await;
    assert!(died.elapsed() < Duration::from_secs(2), "{:?}", died.elapsed());
    assert!(deaf.iter().all(|pid| is_alive(pid)));
    // Meanwhile there is another agent, whose commands are none of this.
    let mut client = binary.client().await;
    let (slept, ()) = tokio::join!(client.sh("sleep 7; echo slept"), async {
        eventually("the deaf are killed", || async { !deaf.iter().any(|pid| is_alive(pid)) }).await;
    });
    assert_eq!(slept, "slept");
    assert!(is_alive(&background));
}

#[tokio::test]
async fn orphans_are_reaped_and_signals_meant_for_programs_do_not_hit_the_agent() {
    let binary = Binary::start(BinaryOptions { in_namespace: Some(""), ..Default::default() }).await;
    let mut client = binary.client().await;
    // A command that kills its supervisor loses what is in other sessions to init.
    client.run("for i in $(seq 20); do setsid sleep 0.1 & done; sleep 0.05; kill -9 $PPID").await;
    eventually("no zombies", || {
        let mut stub = client.stub.clone();
        async move {
            let request = crate::support::exec_request("grep -l '^State:.Z' /proc/[0-9]*/status");
            let mut events = stub.exec(request).await.expect("runs").into_inner();
            let exited = crate::support::finish(&mut events).await.expect("runs");
            crate::support::text_of(exited.stdout.as_ref()).is_empty()
        }
    })
    .await;
    // Everything but PID 1 and the shell itself gets it.
    client.sh("trap '' TERM INT HUP; kill -TERM -1; kill -INT -1; kill -HUP -1; echo $$").await;
    assert_eq!(client.sh("echo alive").await, "alive");
}

#[tokio::test]
async fn sigterm_ends_everything() {
    let mut binary = Binary::start(BinaryOptions::default()).await;
    let mut client = binary.client().await;
    client.sh("setsid sleep 600 & echo $! > left").await;
    let request = v1::StartProcessRequest {
        command: Some(shell("trap 'echo > polite' TERM; sleep 600 & echo $$ > pid; wait")),
    };
    client.stub.start_process(request).await.expect("starts");
    let mut pids = vec![binary.agent_pid().expect("an agent").to_string()];
    for name in ["left", "pid"] {
        pids.push(line_of(&binary.workspace().join(name)).await);
    }
    let started = Instant::now();
    assert!(binary.terminate().await.success());
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    assert!(!pids.iter().any(|pid| is_alive(pid)), "{pids:?}");
    assert!(binary.workspace().join("polite").exists(), "nobody asked politely");
}

/// The agent says that the sandbox's time is over, and init ends it.
#[tokio::test]
async fn a_sandbox_without_a_control_plane_ends_itself() {
    let flags = &["--silence-limit", "1"];
    let mut binary = Binary::start(BinaryOptions { flags, ..Default::default() }).await;
    let mut client = binary.client().await;
    client.sh("setsid sleep 600 & echo $! > left").await;
    let left = line_of(&binary.workspace().join("left")).await;
    let hello = v1::HelloRequest { deadline_unix_ms: 1, ..crate::support::hello() };
    client.stub.hello(hello).await.expect("greets");
    drop(client);
    assert!(binary.exit_status().await.success());
    assert!(!is_alive(&left));
}

/// What an agent was told outlives it. Nobody comes back to tell the next one.
#[tokio::test]
async fn a_sandbox_whose_agent_died_still_ends_itself() {
    let flags = &["--silence-limit", "3"];
    let mut binary = Binary::start(BinaryOptions { flags, ..Default::default() }).await;
    let mut client = binary.client().await;
    client.sh("setsid sleep 600 & echo $! > left").await;
    let left = line_of(&binary.workspace().join("left")).await;
    let hello = v1::HelloRequest { deadline_unix_ms: 1, ..crate::support::hello() };
    client.stub.hello(hello).await.expect("greets");
    let first = binary.agent_pid().expect("an agent");
    let died = Instant::now();
    kill(first);
    eventually("there is another agent", || {
        let next = binary.agent_pid();
        async move { next.is_some_and(|next| next != first) }
    })
    .await;
    assert!(binary.exit_status().await.success());
    // Up to its death somebody was connected.
    assert!(died.elapsed() >= Duration::from_secs(3), "{:?}", died.elapsed());
    assert!(!is_alive(&left));
}

#[test]
fn what_is_missing_is_said() {
    let check = |arguments: &[&str], key: Option<&str>, code: i32, part: &str| {
        let mut command = Command::new(Binary::PATH);
        command.args(arguments).env_remove(emergent_protocol::KEY_VARIABLE);
        if let Some(key) = key {
            command.env(emergent_protocol::KEY_VARIABLE, key);
        }
        let output = command.output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(part), "{arguments:?}: {said}");
    };
    let key = "07".repeat(32);
    check(&[], None, 2, "no mode");
    check(&["init", "--frobnicate"], Some(&key), 2, "--frobnicate");
    check(&["init"], None, 1, "EMERGENT_AGENT_KEY");
    check(&["init"], Some("07"), 1, "64 hexadecimal digits");
    check(&["init", "--listen", "/proc/no/such"], Some(&key), 1, "/proc/no/such");
    check(&["init", "--listen-fd", "77"], Some(&key), 1, "77");
    check(&["relay", "/no/such/socket"], None, 1, "/no/such/socket");
    let version = Command::new(Binary::PATH).arg("version").output().expect("runs");
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("emergent-agent 0."));
}
