//! Calls of nobody in particular, and processes of one client alone.

use std::time::{Duration, Instant};

use emergent_mcp_bridge::front::{Front, FrontOptions, Principal};
use emergent_mcp_bridge::{CallError, Declaration, RawJson, Reply};
use emergent_mcp_hosting::{CallFailure, Dedicated, LogStream, Options, Registration, Update};
use emergent_workspaces::Heard;
use serde_json::Value;

use crate::setup::{Installation, eventually, is_alive, server};

fn raw(text: &str) -> RawJson {
    RawJson::parse(text).unwrap()
}

/// Proves: DESIGN-5.2, DESIGN-10.22
#[tokio::test]
async fn answers_and_errors_are_the_servers_own() {
    let installation = Installation::start().await;
    installation.servers().register(server("shell", "")).await.unwrap();
    let call = |method: &'static str, params: &'static str| {
        let servers = installation.servers();
        async move { servers.call("shell", method, Some(raw(params)), None).await }
    };
    let Reply::Result(result) = call("tools/list", "{}").await.unwrap() else { panic!("no result") };
    assert_eq!(result.as_str(), r#"{"tools":[{"name":"pid"},{"name":"crash"},{"name":"count"}]}"#);
    let Reply::Error(error) = call("tools/call", r#"{"name":"nothing"}"#).await.unwrap() else {
        panic!("no error")
    };
    assert_eq!(error.as_str(), r#"{"code":-32602,"message":"no such tool"}"#);
    for method in ["initialize", "notifications/cancelled", "resources/subscribe", "logging/setLevel"] {
        let refused = call(method, "{}").await;
        assert!(matches!(refused, Err(CallFailure::MethodRefused { .. })), "{method}: {refused:?}");
    }
    assert!(matches!(installation.tool("nobody", "pid").await, Err(CallFailure::NotFound(_))));
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_given_up_and_its_late_answer_is_nobodys() {
    let installation = Installation::start().await;
    installation.servers().register(server("shell", "")).await.unwrap();
    let pid = installation.tool("shell", "pid").await.unwrap();
    let began = Instant::now();
    let slow = installation
        .servers()
        .call("shell", "tools/call", Some(raw(r#"{"name":"slow"}"#)), Some(Duration::from_millis(300)))
        .await;
    assert!(matches!(slow, Err(CallFailure::TimedOut { .. })), "{slow:?}");
    assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
    for _ in 0..3 {
        assert_eq!(installation.tool("shell", "pid").await.unwrap(), pid, "the same process, its own answer");
    }
}

#[tokio::test]
async fn tools_that_are_not_allowed_are_neither_listed_nor_called() {
    let installation = Installation::start().await;
    let registration = Registration {
        tools_allow: Some(vec!["pid".to_owned(), "count".to_owned()]),
        tools_deny: Some(vec!["count".to_owned()]),
        ..server("shell", "")
    };
    installation.servers().register(registration).await.unwrap();
    let Reply::Result(list) = installation.servers().call("shell", "tools/list", None, None).await.unwrap()
    else {
        panic!("no result")
    };
    let list: Value = serde_json::from_str(list.as_str()).unwrap();
    assert_eq!(list, serde_json::json!({"tools": [{"name": "pid"}]}));
    for tool in ["count", "crash", "nothing"] {
        let refused = installation.tool("shell", tool).await;
        assert!(matches!(refused, Err(CallFailure::ToolRefused { .. })), "{tool}: {refused:?}");
    }
    installation.tool("shell", "pid").await.unwrap();
}

#[tokio::test]
async fn a_dedicated_server_has_a_process_for_each_client() {
    let installation = Installation::start().await;
    let registration = Registration { mode: Some("dedicated".to_owned()), ..server("own", "") };
    installation.servers().register(registration).await.unwrap();
    let declaration =
        || Declaration { capabilities: raw("{}"), info: raw(r#"{"name":"test","version":"1"}"#) };
    let one = installation.servers().dedicated("own", Some(declaration())).await.unwrap();
    let other = installation.servers().dedicated("own", Some(declaration())).await.unwrap();
    let mut pids = Vec::new();
    for process in [&one, &other] {
        let reply = process.bridge().call_tool("pid", None, None).await.unwrap();
        let Reply::Result(result) = reply else { panic!("no result") };
        let result: Value = serde_json::from_str(result.as_str()).unwrap();
        pids.push(result["content"][0]["text"].as_str().unwrap().to_owned());
    }
    assert_ne!(pids[0], pids[1]);
    one.end().await;
    assert!(!is_alive(&pids[0]) && is_alive(&pids[1]));
    // A call of nobody in particular has its own, too.
    let pid = installation.tool("own", "pid").await.unwrap();
    assert!(!pids.contains(&pid) && !is_alive(&pid));
    // What is dropped ends as well.
    drop(other);
    eventually("the other is gone", || !is_alive(&pids[1])).await;
    // And what is in use when its server is restarted.
    let last = installation.servers().dedicated("own", Some(declaration())).await.unwrap();
    installation.servers().restart("own").await.unwrap();
    let mut phase = last.bridge().phase();
    let ended = phase.wait_for(|phase| matches!(phase, emergent_mcp_bridge::Phase::Ended { .. }));
    assert!(tokio::time::timeout(Duration::from_secs(10), ended).await.is_ok());
}

async fn own(installation: &Installation) -> Dedicated {
    let declaration = Declaration { capabilities: raw("{}"), info: raw(r#"{"name":"test","version":"1"}"#) };
    installation.servers().dedicated("own", Some(declaration)).await.unwrap()
}

async fn register_dedicated(installation: &Installation) {
    let registration = Registration { mode: Some("dedicated".to_owned()), ..server("own", "") };
    installation.servers().register(registration).await.unwrap();
}

#[tokio::test]
async fn what_is_changed_reaches_clients_that_are_there() {
    for mode in ["shared", "dedicated"] {
        let installation = Installation::start().await;
        let registration = Registration { mode: Some(mode.to_owned()), ..server("own", "") };
        installation.servers().register(registration).await.unwrap();
        let process = if mode == "dedicated" { Some(own(&installation).await) } else { None };
        let bridge = match &process {
            Some(process) => process.bridge().clone(),
            None => installation.servers().bridge("own").unwrap(),
        };
        let client = bridge.connect().unwrap();
        assert!(matches!(bridge.call_tool("pid", None, None).await, Ok(Reply::Result(_))));
        let update = Update {
            tools_deny: Some(vec!["pid".to_owned()]),
            call_timeout_ms: Some(300),
            ..Update::default()
        };
        installation.servers().update("own", update).await.unwrap();
        let refused = bridge.call_tool("pid", None, None).await;
        assert!(matches!(refused, Ok(Reply::Error(_))), "{mode}: {refused:?}");
        let began = Instant::now();
        let slow =
            client.request(raw(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}"#));
        let slow = slow.await.unwrap_err();
        assert_eq!(slow, CallError::TimedOut(Duration::from_millis(300)), "{mode}");
        assert!(began.elapsed() < Duration::from_millis(900), "{mode}: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn what_a_client_is_told_of_a_crash_is_its_own_programs() {
    let installation = Installation::start().await;
    register_dedicated(&installation).await;
    let (one, other) = (own(&installation).await, own(&installation).await);
    assert!(matches!(other.bridge().call_tool("mutter", None, None).await, Ok(Reply::Result(_))));
    let crashed = one.bridge().call_tool("crash", None, None).await.unwrap_err().to_string();
    assert!(crashed.contains("about to crash") && !crashed.contains("secret"), "{crashed}");
    let logs = installation.servers().logs("own", 0, 100).unwrap();
    assert!(logs.lines.iter().any(|line| line.text.contains("secret")), "whoever runs it reads all");
}

#[tokio::test]
async fn the_crash_of_a_clients_own_program_is_told_of() {
    let installation = Installation::start().await;
    let mut events = installation.workspaces().events().subscribe(None);
    register_dedicated(&installation).await;
    let one = own(&installation).await;
    one.bridge().call_tool("crash", None, None).await.unwrap_err();
    let crashed = || {
        let logs = installation.servers().logs("own", 0, 100).unwrap();
        logs.lines
            .iter()
            .any(|line| line.stream == LogStream::Supervisor && line.text.contains("exit code 7"))
    };
    eventually("its end is in the log", crashed).await;
    let mut told = 0;
    while let Some(heard) = events.take() {
        if let Heard::Event(published) = heard {
            told += usize::from(published.event.kind == "mcp_server.crashed");
        }
    }
    assert_eq!(told, 1);
    let view = installation.view("own").await;
    let crash = view.last_crash.unwrap();
    assert_eq!((crash.exit_code, crash.stderr.last().map(String::as_str)), (Some(7), Some("about to crash")));
    // One that is told to end has not crashed, and neither has one whose client leaves.
    let other = own(&installation).await;
    other.end().await;
    drop(own(&installation).await);
    installation.servers().restart("own").await.unwrap();
    let logs = installation.servers().logs("own", 0, 100).unwrap();
    let ends = logs.lines.iter().filter(|line| line.text.starts_with("the program ended with")).count();
    assert_eq!(ends, 1, "{logs:?}");
}

async fn initialize(front: &Front, who: &str) -> u16 {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",
        "capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let request = hyper::Request::post("/mcp")
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json");
    let request = request.body(bytes::Bytes::from(body)).unwrap();
    front.serve(Principal::new(who), request).await.status().as_u16()
}

/// Clients hardly ever say that they leave.
#[tokio::test]
async fn processes_of_clients_that_left_without_a_word_make_room() {
    let installation = Installation::start_with(Options { max_dedicated: 2, ..Options::default() }).await;
    register_dedicated(&installation).await;
    let way = || std::sync::Arc::new(installation.servers().way("own").unwrap());
    let front = Front::new(way(), FrontOptions::default());
    for _ in 0..4 {
        assert_eq!(initialize(&front, "one").await, 200, "its own oldest session makes room");
    }
    assert_eq!(front.sessions(), 2);
    assert_eq!(initialize(&front, "other").await, 503, "nobody else's that may still be used does");
    front.close();
    let options = FrontOptions { min_idle_to_evict: Duration::from_millis(200), ..FrontOptions::default() };
    let front = Front::new(way(), options);
    eventually("the others are gone", || installation.servers().dedicated_processes("own") == 0).await;
    for _ in 0..2 {
        assert_eq!(initialize(&front, "one").await, 200);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(initialize(&front, "other").await, 200, "one that was idle for long makes room");
    assert_eq!(way().most_sessions_of_one(), Some(1), "and one client does not take all");
}
