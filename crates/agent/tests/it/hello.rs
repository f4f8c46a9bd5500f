//! Who may speak.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use emergent_agent::Ended;
use emergent_protocol::{GENERATION, v1};
use tonic::Code;

use crate::support::{Sandbox, exec_request, hello};

#[tokio::test]
async fn nothing_is_answered_before_hello() {
    let sandbox = Sandbox::start();
    // Another connection's greeting is of no use.
    let _greeted = sandbox.client().await;
    let mut stranger = sandbox.stranger().await;
    let marker = sandbox.path("ran");
    let mut codes = Vec::new();
    codes.push(stranger.stub.exec(exec_request(&format!("touch {}", marker.display()))).await.map(drop));
    codes.push(stranger.stub.start_process(v1::StartProcessRequest::default()).await.map(drop));
    codes.push(stranger.stub.list_processes(v1::ListProcessesRequest {}).await.map(drop));
    codes.push(stranger.stub.process_output(v1::ProcessOutputRequest::default()).await.map(drop));
    codes.push(stranger.stub.signal_process(v1::SignalProcessRequest::default()).await.map(drop));
    codes.push(stranger.stub.read_page(v1::ReadPageRequest::default()).await.map(drop));
    codes.push(stranger.stub.read_file(v1::ReadFileRequest::default()).await.map(drop));
    codes.push(stranger.write("x", b"x").await.map(drop));
    codes.push(stranger.stub.stat(v1::StatRequest::default()).await.map(drop));
    codes.push(stranger.stub.list_directory(v1::ListDirectoryRequest::default()).await.map(drop));
    codes.push(stranger.stub.part(v1::PartRequest::default()).await.map(drop));
    codes.push(stranger.stub.quiesce(v1::QuiesceRequest::default()).await.map(drop));
    for code in codes {
        assert_eq!(code.expect_err("refused").code(), Code::Unauthenticated);
    }
    assert!(!marker.exists());
    // A wrong key changes nothing.
    let wrong = v1::HelloRequest { key: vec![8; 32].into(), ..hello() };
    assert_eq!(stranger.stub.hello(wrong).await.expect_err("refused").code(), Code::Unauthenticated);
    let listed = stranger.stub.list_processes(v1::ListProcessesRequest {}).await;
    assert_eq!(listed.expect_err("refused").code(), Code::Unauthenticated);
    stranger.greet().await;
    assert_eq!(stranger.sh("echo hello").await, "hello");
}

#[tokio::test]
async fn generations_that_are_not_served_are_refused() {
    let sandbox = Sandbox::start();
    let mut stranger = sandbox.stranger().await;
    let ancient = v1::HelloRequest { generation: 0, ..hello() };
    let refused = stranger.stub.hello(ancient).await.expect_err("refused");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("generation 0"), "{}", refused.message());
    // The newer side decides whether it still serves the older.
    let newer = v1::HelloRequest { generation: GENERATION + 1, ..hello() };
    let answer = stranger.stub.hello(newer).await.expect("served").into_inner();
    assert_eq!(answer.generation, GENERATION);
    assert!(!answer.agent_version.is_empty());
}

#[tokio::test]
async fn the_greeting_s_environment_is_every_command_s() {
    let sandbox = Sandbox::start();
    let mut client = sandbox.stranger().await;
    let environment = HashMap::from([("GREETED".to_owned(), "yes".to_owned())]);
    client.stub.hello(v1::HelloRequest { environment, ..hello() }).await.expect("greets");
    let mut other = sandbox.client().await;
    assert_eq!(other.sh("echo $GREETED").await, "yes");
    let bad = HashMap::from([("A=B".to_owned(), String::new())]);
    let refused = client.stub.hello(v1::HelloRequest { environment: bad, ..hello() }).await;
    assert_eq!(refused.expect_err("refused").code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_sandbox_nobody_speaks_to_ends_after_its_deadline() {
    let silence = Duration::from_millis(300);
    let sandbox = Sandbox::start_with(|config| config.silence_limit = silence);
    let mut client = sandbox.stranger().await;
    let past = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() - 1000;
    let deadline_unix_ms = u64::try_from(past).expect("fits");
    client.stub.hello(v1::HelloRequest { deadline_unix_ms, ..hello() }).await.expect("greets");
    // As long as somebody is connected it lives.
    tokio::time::sleep(silence * 3).await;
    assert_eq!(client.sh("echo alive").await, "alive");
    client.cut();
    let ended = tokio::time::timeout(Duration::from_secs(10), sandbox.serving).await.expect("ends");
    assert_eq!(ended.expect("no panic"), Ended::LeaseOver);
}
