//! Readers that do not read.

use std::time::{Duration, Instant};

use emergent_protocol::v1;

use crate::support::{Binary, BinaryOptions, exec_request, resident_bytes, text_of};

/// Sixteen streams that nobody reads, of every kind, and a seventeenth call.
#[tokio::test]
async fn sixteen_unread_streams_do_not_stall_a_seventeenth() {
    let binary = Binary::start(BinaryOptions::default()).await;
    let mut client = binary.client().await;
    std::fs::File::create(binary.workspace().join("big"))
        .and_then(|file| file.set_len(1 << 30))
        .expect("sparse");
    let mut unread_commands = Vec::new();
    let mut unread_files = Vec::new();
    for _ in 0..8 {
        let request = v1::ExecRequest { stream_output: true, ..exec_request("cat /dev/zero") };
        unread_commands.push(client.stub.exec(request).await.expect("starts"));
        let request = v1::ReadFileRequest { path: "big".to_owned(), offset: 0, length: 0 };
        unread_files.push(client.stub.read_file(request).await.expect("opens"));
    }
    // Time to fill every window there is.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    for number in 0..10 {
        let started = Instant::now();
        let exited = client.run(&format!("echo {number}; head -c 1000000 /dev/zero >&2")).await;
        assert_eq!(text_of(exited.stdout.as_ref()), format!("{number}\n"));
        assert!(started.elapsed() < Duration::from_secs(5), "took {:?}", started.elapsed());
        assert_eq!(client.read("big", 0, 2_000_000).await.expect("reads").len(), 2_000_000);
        client.write("small", b"x").await.expect("writes");
    }
    let agent = binary.agent_pid().expect("an agent");
    let resident = resident_bytes(agent);
    assert!(resident < 32 << 20, "{resident} bytes for sixteen stalled readers");
}

/// A reader that comes back gets everything, in order.
#[tokio::test]
async fn a_reader_that_pauses_misses_nothing() {
    let binary = Binary::start(BinaryOptions::default()).await;
    let mut client = binary.client().await;
    let request = v1::ExecRequest { stream_output: true, ..exec_request("seq 1 300000") };
    let mut events = client.stub.exec(request).await.expect("starts").into_inner();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut printed = Vec::new();
    let mut total = 0;
    while let Some(event) = events.message().await.expect("no failure") {
        match event.event.expect("an event") {
            v1::exec_event::Event::Output(output) => printed.extend_from_slice(&output.data),
            v1::exec_event::Event::Exited(exited) => total = exited.stdout.expect("a capture").total_bytes,
            v1::exec_event::Event::Started(_) => {}
        }
    }
    assert_eq!(printed.len() as u64, total);
    let text = String::from_utf8(printed).expect("digits");
    assert!(text.lines().zip(1..).all(|(line, number)| line == number.to_string()));
    assert_eq!(text.lines().count(), 300_000);
}
