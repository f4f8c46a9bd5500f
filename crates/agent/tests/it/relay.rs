//! The stream over standard input and output.

use std::process::Stdio;

use tokio::io::join;
use tokio::net::unix::pipe;

use crate::support::{Binary, BinaryOptions, connect};

/// A connection through the relay is a connection.
#[tokio::test]
async fn calls_go_through() {
    let binary = Binary::start(BinaryOptions::default()).await;
    let mut relay = std::process::Command::new(Binary::PATH)
        .arg("relay")
        .arg(binary.socket())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let input = pipe::Sender::from_owned_fd(relay.stdin.take().expect("piped").into()).expect("a pipe");
    let output = pipe::Receiver::from_owned_fd(relay.stdout.take().expect("piped").into()).expect("a pipe");
    let mut client = connect(join(output, input)).await;
    client.greet().await;
    let stdout = client.run("head -c 10000000 /dev/zero; echo end").await.stdout.expect("a capture");
    assert_eq!(stdout.total_bytes, 10_000_004);
    let content = vec![b'x'; 5_000_000];
    client.write("file", &content).await.expect("writes");
    assert!(client.read("file", 0, 0).await.expect("reads") == content);
    // The agent's side of the stream ends: the relay ends with it, though its input is open.
    drop(binary);
    let status = tokio::task::spawn_blocking(move || relay.wait()).await.expect("no panic").expect("is ours");
    assert!(status.success());
}
