//! Clients that stop reading, and clients that send too much.

use std::time::{Duration, Instant};

use emergent_test_support::{Sandbox, TestServerOptions, eventually};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::api::{Api, WORKSPACES};

impl Api {
    /// A connection on which a request's head was sent.
    async fn raw(&self, method: &str, path: &str, headers: &str) -> TcpStream {
        let address = self.server.url().strip_prefix("http://").unwrap();
        let mut connection = TcpStream::connect(address).await.unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n{headers}\r\n",
            self.server.token()
        );
        connection.write_all(head.as_bytes()).await.unwrap();
        connection
    }
}

/// Reads an answer's head, and what comes with it.
async fn head(connection: &mut TcpStream) -> String {
    let mut text = Vec::new();
    while !text.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut some = [0; 4096];
        let read = tokio::time::timeout(Duration::from_secs(10), connection.read(&mut some)).await;
        let read = read.expect("an answer comes").unwrap();
        assert_ne!(read, 0, "closed after {:?}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&some[..read]);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Who reads nothing holds a download, a stream of events or a terminal only for so long.
#[tokio::test]
async fn a_client_that_does_not_read_is_given_up() {
    let api = Api::start_with(TestServerOptions::default().with("EMERGENT_STALL_SECONDS", 1)).await;
    let workspace = api.create().await;
    workspace.sh("truncate -s 4G large").await;
    let _download = api.raw("GET", &workspace.path("/files?path=large"), "").await;
    let body = r#"{"command": "yes events"}"#;
    let headers = format!(
        "content-type: application/json\r\naccept: text/event-stream\r\ncontent-length: {}\r\n",
        body.len()
    );
    let mut events = api.raw("POST", &workspace.path("/bash"), &headers).await;
    events.write_all(body.as_bytes()).await.unwrap();
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                   sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let _terminal = api.raw("GET", &workspace.path("/terminal?command=yes%20shown"), upgrade).await;
    let sandbox = || Sandbox::of(workspace.id);
    eventually("both run", Duration::from_secs(10), async || {
        (sandbox().runs("yes events") && sandbox().runs("yes shown")).then_some(())
    })
    .await;
    eventually("all of it is over", Duration::from_secs(20), async || {
        let audit = api.get(&format!("/api/v1/audit?workspace_id={}&outcome=cancelled", workspace.id)).await;
        let tools: Vec<_> =
            audit.body["items"].as_array().unwrap().iter().map(|entry| entry["tool"].clone()).collect();
        let given_up = ["download", "bash", "terminal"].iter().all(|tool| tools.contains(&json!(tool)));
        (given_up && !sandbox().runs("yes events") && !sandbox().runs("yes shown")).then_some(())
    })
    .await;
    assert_eq!(workspace.sh("echo fine").await, "fine\n");
    api.finish().await;
}

/// Somebody who pauses for less is served to the end.
#[tokio::test]
async fn a_client_that_pauses_gets_everything() {
    let api = Api::start_with(TestServerOptions::default().with("EMERGENT_STALL_SECONDS", 3)).await;
    let workspace = api.create().await;
    workspace.sh("truncate -s 64M large").await;
    let mut download = api.raw("GET", &workspace.path("/files?path=large"), "connection: close\r\n").await;
    let mut total = head(&mut download).await.split_once("\r\n\r\n").unwrap().1.len();
    let mut buffer = vec![0; 16 << 20];
    for _ in 0..3 {
        // Longer than it takes to fill what the kernel keeps for the client.
        tokio::time::sleep(Duration::from_secs(1)).await;
        total += download.read(&mut buffer).await.unwrap();
    }
    loop {
        match download.read(&mut buffer).await.unwrap() {
            0 => break,
            read => total += read,
        }
    }
    assert_eq!(total, 64 << 20);
    api.finish().await;
}

/// What is announced as too large is refused before it comes, and nobody waits for it.
#[tokio::test]
async fn a_body_that_is_announced_as_too_large_is_refused_at_once() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let (tool, other) = (16u64 << 20, 2u64 << 20);
    for (path, length, most) in [
        (workspace.path("/write"), tool + 1, tool),
        (workspace.path("/bash"), 100_000_000, tool),
        (WORKSPACES.to_owned(), other + 1, other),
        (WORKSPACES.to_owned(), 1 << 40, other),
        (workspace.path("/stop"), 1 << 60, other),
        ("/api/v1/tokens".to_owned(), 100_000_000, other),
    ] {
        let begun = Instant::now();
        let headers = format!("content-type: application/json\r\ncontent-length: {length}\r\n");
        let mut connection = api.raw("POST", &path, &headers).await;
        let answer = head(&mut connection).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{path}: {answer}");
        assert!(
            answer.contains("\"field\":\"body\"") && answer.contains(&format!("\"max_bytes\":{most}")),
            "{answer}"
        );
        assert!(begun.elapsed() < Duration::from_secs(2), "{path}: {:?}", begun.elapsed());
    }
    assert_eq!(workspace.status().await, "ready");

    // Who sends all of it all the same can read the answer, however it is framed.
    for framing in ["content-length: 104857600\r\n", "transfer-encoding: chunked\r\n"] {
        let headers = format!("content-type: application/json\r\n{framing}");
        let mut connection = api.raw("POST", &workspace.path("/write"), &headers).await;
        let chunk = vec![b' '; 1 << 20];
        for _ in 0..100 {
            if framing.starts_with("transfer") {
                connection.write_all(b"100000\r\n").await.unwrap();
            }
            connection.write_all(&chunk).await.unwrap();
            if framing.starts_with("transfer") {
                connection.write_all(b"\r\n").await.unwrap();
            }
        }
        let answer = head(&mut connection).await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{framing}: {answer}");
    }
    assert_eq!(workspace.sh("ls -A").await, "");
    api.finish().await;
}
