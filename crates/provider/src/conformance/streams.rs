//! The byte streams to the agent: flow control, loss, and who may speak.

use std::time::{Duration, Instant};

use bytes::Bytes;
use emergent_agent_client::{AgentError, AgentKey, CommandSpec, ExecEvent, ExecOptions};
use emergent_protocol::v1;
use emergent_types::WorkspaceId;

use super::Subject;
use super::subject::eventually;

/// Sixteen callers that read nothing do not slow a seventeenth down.
pub async fn stalled_readers_do_not_stall_others(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let mut stalled = Vec::new();
    for _ in 0..16 {
        let options = ExecOptions { timeout: Duration::from_secs(60), ..ExecOptions::default() };
        let mut stream = sandbox
            .client
            .exec_stream(&CommandSpec::shell("yes 0123456789abcdef"), options)
            .await
            .expect("starts");
        // It really prints; from here on nobody reads.
        while !matches!(stream.next().await.expect("an event"), Some(ExecEvent::Output(..))) {}
        stalled.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    for _ in 0..3 {
        let started = Instant::now();
        assert_eq!(sandbox.sh("echo 17").await, "17");
        assert!(started.elapsed() < Duration::from_secs(5), "took {:?}", started.elapsed());
    }
    let big = Bytes::from(vec![b'x'; 2 << 20]);
    sandbox.client.write_file("big", big).await.expect("a big write passes");
    // A stalled stream is only stalled: what it missed is still to be had.
    let mut stream = stalled.pop().expect("there are sixteen");
    for _ in 0..64 {
        assert!(stream.next().await.expect("goes on").is_some());
    }
}

/// One command that prints as fast as it can leaves the others their time.
pub async fn a_flood_of_output_leaves_other_calls_alone(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let client = sandbox.client.clone();
    let flood = tokio::spawn(async move {
        let command = CommandSpec::shell("head -c 400000000 /dev/zero");
        client.exec(&command, ExecOptions::default()).await
    });
    let mut calls = 0;
    while !flood.is_finished() {
        let started = Instant::now();
        sandbox.client.stat(".").await.expect("answers");
        assert!(started.elapsed() < Duration::from_secs(2), "took {:?}", started.elapsed());
        calls += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(calls > 0, "the flood was over before the first call");
    let outcome = flood.await.expect("no panic").expect("answers");
    assert_eq!(outcome.stdout.total_bytes, 400_000_000);
}

/// After the stream is lost the next call finds its way again.
pub async fn a_lost_stream_is_dialled_again(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    for round in 0..3 {
        sandbox.client.disconnect().await;
        assert_eq!(sandbox.sh(&format!("echo {round}")).await, round.to_string());
    }
}

/// Whoever lets go of the stream knows before that nobody inside will miss it.
pub async fn who_is_alive_is_told_before_parting(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let alive = async || sandbox.client.part(0).await.expect("answers").expect("is connected");
    // A command is answered a moment before its supervisor has ended.
    eventually("what has run is gone", async || alive().await == 0).await;
    sandbox.sh("setsid sleep 600 > /dev/null 2>&1 & echo $! > pid").await;
    assert_ne!(alive().await, 0, "a command has left something behind");
    sandbox.sh("kill -9 $(cat pid)").await;
    eventually("it is gone", async || alive().await == 0).await;
    sandbox.client.disconnect().await;
    assert_eq!(sandbox.client.part(0).await.expect("answers"), None, "nothing is dialled for this");
}

/// Another workspace's key opens nothing.
pub async fn a_wrong_key_is_refused(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let foreign = AgentKey::derive(b"somebody else", WorkspaceId::generate());
    let intruder = subject.client_with_key(&sandbox.spec, foreign);
    let error = intruder.greet().await.expect_err("refused");
    assert!(matches!(error, AgentError::Refused { .. }), "{error}");
    assert_eq!(sandbox.sh("echo fine").await, "fine");
}

async fn raw_stub(
    subject: &Subject,
    id: WorkspaceId,
) -> v1::agent_client::AgentClient<emergent_agent_client::RawTransport> {
    let stream = subject.provider.connect(id).await.expect("connects");
    emergent_agent_client::raw_stub(stream).await.expect("speaks HTTP/2")
}

/// A connection that has not greeted can do nothing.
pub async fn nothing_is_served_before_the_greeting(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let mut stub = raw_stub(subject, sandbox.id()).await;
    let command = CommandSpec::shell("touch intruder").to_message();
    let request = v1::ExecRequest { command: Some(command), ..Default::default() };
    let status = stub.exec(request).await.expect_err("refused");
    assert_eq!(status.code(), tonic::Code::Unauthenticated, "{status}");
    let status = stub.list_processes(v1::ListProcessesRequest {}).await.expect_err("refused");
    assert_eq!(status.code(), tonic::Code::Unauthenticated, "{status}");
    assert_eq!(sandbox.run("test -e intruder").await.exit.code, 1);
}

/// A control plane that the agent cannot understand is told so.
pub async fn an_unknown_generation_is_refused(subject: &Subject) {
    let sandbox = subject.sandbox().await;
    let mut stub = raw_stub(subject, sandbox.id()).await;
    let hello = |generation| v1::HelloRequest {
        generation,
        key: sandbox.spec.agent_key.expose().to_vec().into(),
        ..Default::default()
    };
    let status = stub.hello(hello(0)).await.expect_err("refused");
    assert_eq!(status.code(), tonic::Code::FailedPrecondition, "{status}");
    // A newer control plane is met at the agent's own generation; it decides what it serves.
    let answer = stub.hello(hello(emergent_protocol::GENERATION + 1)).await.expect("served");
    assert_eq!(answer.into_inner().generation, emergent_protocol::GENERATION);
}
