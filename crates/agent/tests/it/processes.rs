//! Background processes.

use std::time::Duration;

use emergent_protocol::v1::OutputStream;
use emergent_protocol::{FailureCode, v1};

use crate::support::{Client, Sandbox, eventually, failure, shell};

async fn start(client: &mut Client, text: &str) -> v1::StartProcessResponse {
    let request = v1::StartProcessRequest { command: Some(shell(text)) };
    client.stub.start_process(request).await.expect("starts").into_inner()
}

async fn find(client: &mut Client, id: u64) -> Option<v1::Process> {
    let listed = client.stub.list_processes(v1::ListProcessesRequest {}).await.expect("lists").into_inner();
    listed.processes.into_iter().find(|process| process.process_id == id)
}

async fn output(
    client: &mut Client,
    id: u64,
    stream: OutputStream,
    offset: u64,
    follow: bool,
) -> (u64, Vec<u8>) {
    let request = v1::ProcessOutputRequest { process_id: id, stream: stream.into(), offset, follow };
    let mut chunks = client.stub.process_output(request).await.expect("is known").into_inner();
    let mut first = None;
    let mut bytes: Vec<u8> = Vec::new();
    while let Some(chunk) = chunks.message().await.expect("no failure") {
        let place = *first.get_or_insert(chunk.offset);
        assert_eq!(chunk.offset, place + bytes.len() as u64);
        bytes.extend_from_slice(&chunk.data);
    }
    (first.unwrap_or(offset), bytes)
}

#[tokio::test]
async fn they_outlive_the_connection_and_are_followed_from_another() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let text = "for i in 1 2 3 4 5; do echo line $i; sleep 0.1; done; echo oops >&2; exit 3";
    let started = start(&mut client, text).await;
    let running = find(&mut client, started.process_id).await.expect("is listed");
    assert_eq!((running.pid, running.command.as_str(), running.exit), (started.pid, text, None));
    assert!(running.started_unix_ms > 1_600_000_000_000);
    client.cut();
    let mut client = sandbox.client().await;
    let (_, followed) = output(&mut client, started.process_id, OutputStream::Stdout, 0, true).await;
    assert_eq!(String::from_utf8_lossy(&followed), "line 1\nline 2\nline 3\nline 4\nline 5\n");
    let (_, errors) = output(&mut client, started.process_id, OutputStream::Stderr, 0, true).await;
    assert_eq!(errors, b"oops\n");
    let (place, rest) = output(&mut client, started.process_id, OutputStream::Stdout, 28, false).await;
    assert_eq!((place, rest.as_slice()), (28, b"line 5\n".as_slice()));
    let ended = find(&mut client, started.process_id).await.expect("is remembered");
    assert_eq!(ended.exit.map(|exit| exit.code), Some(3));
    assert_eq!((ended.stdout_bytes, ended.stderr_bytes), (35, 5));
}

#[tokio::test]
async fn the_oldest_output_gives_way() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let started = start(&mut client, "head -c 5000000 /dev/zero; echo end").await;
    eventually("it has ended", || {
        let mut stub = client.stub.clone();
        async move {
            let listed = stub.list_processes(v1::ListProcessesRequest {}).await.expect("lists").into_inner();
            listed.processes.iter().any(|process| process.exit.is_some() && process.stdout_bytes == 5_000_004)
        }
    })
    .await;
    let (place, kept) = output(&mut client, started.process_id, OutputStream::Stdout, 7, true).await;
    assert_eq!((place, kept.len()), (5_000_004 - (1 << 20), 1 << 20));
    assert!(kept.ends_with(b"\0end\n"));
}

#[tokio::test]
async fn ended_ones_are_forgotten_and_running_ones_are_bounded() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let first = start(&mut client, "true").await.process_id;
    for _ in 0..40 {
        start(&mut client, "true").await;
    }
    eventually("the first is forgotten", || {
        let mut stub = client.stub.clone();
        async move {
            let request = v1::SignalProcessRequest { process_id: first, signal: 9, stdio_pid: 0 };
            stub.signal_process(request).await.is_err()
        }
    })
    .await;
    let mut refused = None;
    for _ in 0..65 {
        let request = v1::StartProcessRequest { command: Some(shell("sleep 600")) };
        if let Err(status) = client.stub.start_process(request).await {
            refused = Some(failure(&status).0);
        }
    }
    assert_eq!(refused, Some(FailureCode::TooMany));
    sandbox.end().await;
}

#[tokio::test]
async fn what_is_not_there_is_said() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let signal = v1::SignalProcessRequest { process_id: 99, signal: 9, stdio_pid: 0 };
    let unknown = client.stub.signal_process(signal).await.expect_err("unknown");
    assert_eq!(failure(&unknown).0, FailureCode::ProcessNotFound);
    let request = v1::ProcessOutputRequest { process_id: 99, stream: 1, offset: 0, follow: false };
    let unknown = client.stub.process_output(request).await.expect_err("unknown");
    assert_eq!(failure(&unknown).0, FailureCode::ProcessNotFound);
    let process_id = start(&mut client, "sleep 600").await.process_id;
    for signal in [0, 65, u32::MAX] {
        let refused =
            client.stub.signal_process(v1::SignalProcessRequest { process_id, signal, stdio_pid: 0 }).await;
        assert_eq!(failure(&refused.expect_err("no signal")).0, FailureCode::InvalidRequest);
    }
    let request = v1::ProcessOutputRequest { process_id, stream: 0, offset: 0, follow: false };
    let refused = client.stub.process_output(request).await.expect_err("no stream");
    assert_eq!(failure(&refused).0, FailureCode::InvalidRequest);
    sandbox.end().await;
}

/// A follower that goes away leaves nothing behind, and a daemon is reached by signals after
/// the process that started it has gone.
#[tokio::test]
async fn daemons_stay_reachable() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.client().await;
    let process_id = start(&mut client, "setsid sleep 600 & echo $! > daemon").await.process_id;
    let daemon = crate::support::line_of(&sandbox.path("daemon")).await;
    // The daemon holds the stream open; following ends with the process all the same.
    let followed = tokio::time::timeout(
        Duration::from_secs(5),
        output(&mut client, process_id, OutputStream::Stdout, 0, true),
    );
    assert_eq!(followed.await.expect("ends").1, b"");
    assert!(find(&mut client, process_id).await.expect("is remembered").exit.is_some());
    let signal = v1::SignalProcessRequest { process_id, signal: 15, stdio_pid: 0 };
    assert_eq!(client.stub.signal_process(signal).await.expect("is known").into_inner().delivered, 1);
    eventually("the daemon has ended", || async { !crate::support::is_alive(&daemon) }).await;
}
