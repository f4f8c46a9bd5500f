//! In a process of its own, because it looks at how big that gets.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::time::Duration;

use emergent_mcp_bridge::{Bridge, EraChoice, Options, RawJson, ServerIo};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

/// The most memory that this process ever had, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_line_of_100_mb_costs_no_more_than_the_longest_allowed() {
    let (stdin, input) = tokio::io::duplex(1 << 16);
    let (mut output, stdout) = tokio::io::duplex(1 << 16);
    let longest = 4 << 20;
    let options = Options { era: EraChoice::Legacy, max_line_bytes: longest, ..Options::default() };
    let (handle, _ended) = Bridge::start(options, ServerIo::new(stdin, stdout));
    let mut input = BufReader::new(input).lines();
    input.next_line().await.unwrap();
    output
        .write_all(b"{\"id\":1,\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{}}}\n")
        .await
        .unwrap();
    input.next_line().await.unwrap();
    handle.ready(Duration::from_secs(5)).await.unwrap();

    let before = peak_kib();
    let chunk = vec![b'x'; 1 << 16];
    for round in 0..3 {
        output.write_all(b"{\"result\":\"").await.unwrap();
        for _ in 0..100 * 16 {
            output.write_all(&chunk).await.unwrap();
        }
        output.write_all(format!("\",\"id\":{round}000}}\n").as_bytes()).await.unwrap();
    }
    let client = handle.connect().unwrap();
    let request = RawJson::parse(r#"{"jsonrpc":"2.0","id":"x","method":"tools/list"}"#).unwrap();
    let (got, ()) = tokio::join!(client.request(request), async {
        input.next_line().await.unwrap();
        output.write_all(b"{\"id\":2,\"result\":\"fine\"}\n").await.unwrap();
    });
    assert_eq!(got.unwrap().as_str(), r#"{"id":"x","result":"fine"}"#);
    assert_eq!(handle.stats().long_lines, 3);
    let grown = peak_kib() - before;
    assert!(grown < 4 * (longest as u64 >> 10), "grew by {grown} KiB");
}
