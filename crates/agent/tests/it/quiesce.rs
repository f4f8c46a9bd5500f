//! Ending everything before a sandbox is taken down.

use std::time::{Duration, Instant};

use emergent_protocol::v1;

use crate::support::{Binary, BinaryOptions, Client, Sandbox, is_alive, line_of, shell};

#[tokio::test]
async fn everything_of_the_agent_s_is_ended() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    for text in ["echo $$ > polite; sleep 600", "trap '' TERM; echo $$ > deaf; while :; do sleep 1; done"] {
        client
            .stub
            .start_process(v1::StartProcessRequest { command: Some(shell(text)) })
            .await
            .expect("starts");
    }
    client.sh("setsid sleep 600 & echo $! > left").await;
    let mut pids = Vec::new();
    for name in ["polite", "deaf", "left"] {
        pids.push(line_of(&sandbox.path(name)).await);
    }
    let started = Instant::now();
    let answer =
        client.stub.quiesce(v1::QuiesceRequest { grace_ms: 500 }).await.expect("quiesces").into_inner();
    assert!(answer.killed >= 1, "the deaf one must be killed");
    assert!((500..4000).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
    assert!(!pids.iter().any(|pid| is_alive(pid)));
    assert_eq!(client.sh("echo still here").await, "still here");
}

/// Whoever parts is told of everybody: what runs in the background, what a command has left, and in a PID
/// namespace also what the agent never heard of.
#[tokio::test]
async fn who_is_alive_is_told_to_whoever_parts() {
    async fn alive(client: &mut Client) -> u32 {
        client.stub.part(v1::PartRequest::default()).await.expect("answers").into_inner().alive
    }
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    assert_eq!(alive(&mut client).await, 0);
    client.sh("setsid sleep 600 &").await;
    assert_eq!(alive(&mut client).await, 1);
    client.stub.quiesce(v1::QuiesceRequest { grace_ms: 500 }).await.expect("quiesces");
    assert_eq!(alive(&mut client).await, 0);

    let stranger = "(setsid sleep 600 &) &&";
    let binary = Binary::start(BinaryOptions { in_namespace: Some(stranger), ..Default::default() }).await;
    let mut client = binary.client().await;
    assert_eq!(alive(&mut client).await, 1, "one that the agent did not start");
}

/// In a PID namespace also what the agent never heard of.
#[tokio::test]
async fn a_whole_namespace_is_ended() {
    let stranger = "(setsid sleep 600 &) &&";
    let binary = Binary::start(BinaryOptions { in_namespace: Some(stranger), ..Default::default() }).await;
    let mut client = binary.client().await;
    let sleepers = "cat /proc/[0-9]*/comm | grep -c sleep; true";
    client.sh("setsid sleep 600 &").await;
    assert_eq!(client.sh(sleepers).await, "2");
    let started = Instant::now();
    let answer =
        client.stub.quiesce(v1::QuiesceRequest { grace_ms: 5000 }).await.expect("quiesces").into_inner();
    assert_eq!(answer.killed, 0, "all were polite");
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    assert_eq!(client.sh(sleepers).await, "0");
}
