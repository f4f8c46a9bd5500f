//! Root in a sandbox can replace the agent. Whatever stands there, every call ends, with an
//! error where the answer makes no sense, and takes a bounded amount of memory.

mod agent;
mod headers;

use std::time::Duration;

use agent::{Behaviour, FOR_EVER, Hostile};
use bytes::Bytes;
use emergent_agent_client::{
    AgentClient, AgentError, CommandSpec, ExecOptions, StdioSpec, StreamKind, TerminalSpec, UploadError,
};
use emergent_protocol::v1;
use futures::stream;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What came of one call: how it ended.
type Outcome = (&'static str, Result<(), String>);

fn said<T>(name: &'static str, result: Result<T, AgentError>) -> Outcome {
    (name, result.map(drop).map_err(|error| error.to_string()))
}

/// Reads a stream to its end, up to a bound.
macro_rules! drain {
    ($name:literal, $opened:expr) => {{
        let outcome = match $opened {
            Ok(mut stream) => {
                let mut seen = 0;
                loop {
                    match stream.next().await {
                        Ok(Some(_)) if seen < 1000 => seen += 1,
                        Ok(_) => break Ok(()),
                        Err(error) => break Err(error),
                    }
                }
            }
            Err(error) => Err(error),
        };
        said($name, outcome)
    }};
}

fn unreachable_error() -> AgentError {
    AgentError::Unreachable { reason: String::new(), not_sent: false }
}

/// Makes every call there is, and reads every stream.
async fn every_call(client: &AgentClient) -> Vec<Outcome> {
    let command = CommandSpec::shell("true");
    let options = ExecOptions { timeout: Duration::from_secs(1), capture_limit: 1024 };
    let mut outcomes = vec![
        said("exec", client.exec(&command, options).await),
        drain!("exec_stream", client.exec_stream(&command, options).await),
        said("start_process", client.start_process(&command).await),
        said("list_processes", client.list_processes().await),
        said("signal_process", client.signal_process(1, 9).await),
        said("read_page", client.read_page("x", 0, 0).await),
        drain!("read_file", client.read_file("x", 0, 100).await),
        said("write_file", client.write_file("x", Bytes::from(vec![0; 1 << 20])).await),
        said("stat", client.stat("x").await),
        said("list_directory", client.list_directory("x", 0).await),
        // Without a connection nobody is asked, which is no answer either.
        said("part", client.part(0).await.and_then(|alive| alive.map(drop).ok_or_else(unreachable_error))),
        said("quiesce", client.quiesce(Duration::from_secs(1)).await),
        drain!("watch", client.watch("x", true).await),
        drain!("offer_services", client.offer_services(&["git"]).await),
    ];
    let followed = tokio::time::timeout(FOR_EVER, async {
        drain!("process_output", client.process_output(1, StreamKind::Stdout, 0, true).await)
    });
    outcomes.push(followed.await.unwrap_or(("process_output", Err("silent for ever".to_owned()))));
    let terminal = tokio::time::timeout(FOR_EVER, async {
        match client.terminal(&TerminalSpec::default()).await {
            Ok(terminal) => {
                let _ = terminal.input.send(Bytes::from_static(b"ls\n")).await;
                drain!("terminal", Ok::<_, AgentError>(terminal.output))
            }
            Err(error) => said("terminal", Err::<(), _>(error)),
        }
    });
    outcomes.push(terminal.await.unwrap_or(("terminal", Err("silent for ever".to_owned()))));
    let stdio = tokio::time::timeout(FOR_EVER, async {
        match client.stdio(&StdioSpec::new(["cat"])).await {
            Ok(stdio) => {
                let _ = stdio.input.send(Bytes::from_static(b"words")).await;
                drain!("stdio", Ok::<_, AgentError>(stdio.output))
            }
            Err(error) => said("stdio", Err::<(), _>(error)),
        }
    });
    outcomes.push(stdio.await.unwrap_or(("stdio", Err("silent for ever".to_owned()))));
    outcomes.push(said("tunnel", through_tunnel(client).await));
    outcomes.push(said("upload", upload(client).await));
    outcomes
}

async fn through_tunnel(client: &AgentClient) -> Result<(), AgentError> {
    let mut tunnel = client.tunnel(80).await?;
    let failed =
        |error: std::io::Error| AgentError::Unreachable { reason: error.to_string(), not_sent: false };
    let talk = async {
        tunnel.write_all(b"GET / HTTP/1.1\r\n\r\n").await.map_err(failed)?;
        tunnel.shutdown().await.map_err(failed)?;
        let mut buffer = vec![0; 1 << 20];
        tunnel.read(&mut buffer).await.map_err(failed)?;
        Ok(())
    };
    tokio::time::timeout(FOR_EVER, talk).await.unwrap_or_else(|_| Err(unreachable_error()))
}

async fn upload(client: &AgentClient) -> Result<(), AgentError> {
    let content = stream::iter((0..64).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![0; 64 << 10]))));
    match client.write_stream("x", None, Some(4 << 20), content).await {
        Ok(_) => Ok(()),
        Err(UploadError::Agent(error)) => Err(error),
        Err(error) => Err(AgentError::Unreachable { reason: error.to_string(), not_sent: false }),
    }
}

/// Every call ends with an error, however long the agent would have taken.
async fn all_fail(behaviour: Behaviour) {
    let what = format!("{behaviour:?}");
    let (client, _) = Hostile::client(behaviour);
    for (call, outcome) in every_call(&client).await {
        let error = outcome.expect_err(&format!("{what}: {call} succeeds"));
        assert!(error.len() < 10_000, "{what}: {call} repeats {} bytes", error.len());
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_says_nothing_is_given_up() {
    all_fail(Behaviour::Silent).await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_begins_and_stops_is_given_up() {
    let (client, _) = Hostile::client(Behaviour::Begins);
    for (call, outcome) in every_call(&client).await {
        assert!(outcome.is_err(), "{call} succeeds");
    }
}

#[tokio::test]
async fn answers_that_are_none_are_errors() {
    for behaviour in [
        Behaviour::Garbage,
        Behaviour::BreaksOff,
        Behaviour::LongFailure,
        Behaviour::NoGrpc,
        Behaviour::HangsUp,
    ] {
        all_fail(behaviour).await;
    }
}

/// Nothing at all is no answer; for a stream of changes or bytes it is an end.
#[tokio::test]
async fn an_answer_with_nothing_in_it_is_no_success_where_something_is_needed() {
    let (client, _) = Hostile::client(Behaviour::Empty);
    let may_be_empty = ["process_output", "read_file"];
    for (call, outcome) in every_call(&client).await {
        assert_eq!(outcome.is_ok(), may_be_empty.contains(&call), "{call}: {outcome:?}");
    }
}

/// A message that is too long is refused before it is received.
#[tokio::test]
async fn an_oversized_message_is_not_received() {
    for length in [5 << 20, u32::MAX] {
        let (client, agent) = Hostile::client(Behaviour::Announces(length));
        for (call, outcome) in every_call(&client).await {
            assert!(outcome.is_err(), "{call} takes {length} bytes");
        }
        assert!(agent.sent() < 64 << 20, "{} bytes went out in all calls together", agent.sent());
    }
}

/// Messages that are long enough to be taken, and hold a million empty entries.
#[tokio::test]
async fn many_tiny_entries_do_not_become_much_memory() {
    let entries = |field: u8, count: usize| Bytes::from([field << 3 | 2, 0].repeat(count));
    let (client, _) = Hostile::client(Behaviour::Says(vec![entries(1, 1_500_000)]));
    let before = resident_bytes();
    assert!(client.list_processes().await.is_err());
    assert!(client.list_directory("x", 0).await.is_err());
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
}

/// More than was asked for, and things nobody asked for.
#[tokio::test]
async fn lies_are_caught() {
    let chunk = |length: usize| v1::FileChunk { data: vec![0; length].into(), ..Default::default() };
    let (client, _) = Hostile::client(Behaviour::Endless(vec![chunk(1000).encode_to_vec().into()]));
    let mut file = client.read_file("x", 0, 4500).await.expect("opens");
    let mut got = 0;
    let error = loop {
        match file.next().await {
            Ok(Some(data)) => got += data.len(),
            Ok(None) => panic!("it is endless"),
            Err(error) => break error,
        }
    };
    assert_eq!((got, matches!(error, AgentError::Malformed { .. })), (4000, true), "{error}");

    let output = v1::ExecEvent {
        event: Some(v1::exec_event::Event::Output(v1::Output { stream: 1, data: Bytes::from_static(b"x") })),
    };
    let (client, _) = Hostile::client(Behaviour::Endless(vec![output.encode_to_vec().into()]));
    let refused = client.exec(&CommandSpec::shell("true"), ExecOptions::default()).await;
    assert!(matches!(refused, Err(AgentError::Malformed { .. })), "{refused:?}");

    let offered = v1::ServiceConnection { connection_id: 0, service: String::new() };
    let foreign = v1::ServiceConnection { connection_id: 7, service: "secrets".to_owned() };
    let (client, _) = Hostile::client(Behaviour::Says(vec![
        offered.encode_to_vec().into(),
        foreign.encode_to_vec().into(),
    ]));
    let mut offer = client.offer_services(&["git"]).await.expect("offered");
    assert!(matches!(offer.next().await, Err(AgentError::Malformed { .. })));

    let written = v1::WriteFileResponse { bytes_written: 3, created: true };
    let (client, _) = Hostile::client(Behaviour::Says(vec![written.encode_to_vec().into()]));
    assert!(upload(&client).await.is_err(), "three bytes are not four million");

    let watching = v1::WatchEvent { kind: v1::ChangeKind::Watching.into(), ..Default::default() };
    let long = v1::WatchEvent {
        kind: v1::ChangeKind::Created.into(),
        path: "x".repeat(500_000),
        ..Default::default()
    };
    for odd in [watching.clone(), long, v1::WatchEvent { kind: 99, ..Default::default() }] {
        let says = vec![watching.encode_to_vec().into(), odd.encode_to_vec().into()];
        let (client, _) = Hostile::client(Behaviour::Says(says));
        let mut changes = client.watch("x", true).await.expect("watches");
        assert!(matches!(changes.next().await, Err(AgentError::Malformed { .. })));
    }
}

/// A stream without end costs nothing while nobody reads it.
#[tokio::test]
async fn an_endless_stream_waits_for_its_reader() {
    let opened = v1::TunnelOutput { output: Some(v1::tunnel_output::Output::Opened(v1::TunnelOpened {})) };
    let data = v1::TunnelOutput { output: Some(v1::tunnel_output::Output::Data(vec![7; 32 << 10].into())) };
    let messages = std::iter::once(&opened).chain(std::iter::repeat_n(&data, 2000));
    let messages = messages.map(|message| message.encode_to_vec().into()).collect();
    let (client, agent) = Hostile::client(Behaviour::Endless(messages));
    let mut tunnel = client.tunnel(80).await.expect("opens");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(agent.sent() < 4 << 20, "{} bytes for nobody", agent.sent());
    let mut buffer = vec![0; 8 << 20];
    tunnel.read_exact(&mut buffer).await.expect("reads on");
    assert!(buffer.iter().all(|byte| *byte == 7));
    drop(tunnel);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let sent = agent.sent();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(agent.sent(), sent, "it goes on after the end");
}

/// A source that fails, or is not as long as it said, is told apart from the agent's failures.
#[tokio::test]
async fn a_bad_source_is_no_failure_of_the_agent() {
    let (client, _) = Hostile::client(Behaviour::Silent);
    let piece = || Ok::<_, &str>(Bytes::from_static(b"12345"));
    let broken = client.write_stream("x", None, None, stream::iter([piece(), Err("cut")])).await;
    assert!(matches!(broken, Err(UploadError::Source("cut"))), "{broken:?}");
    for announced in [4, 6] {
        let odd = client.write_stream("x", None, Some(announced), stream::iter([piece()])).await;
        assert!(matches!(odd, Err(UploadError::Length { got: 5, .. })), "{odd:?}");
    }
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("readable");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}
