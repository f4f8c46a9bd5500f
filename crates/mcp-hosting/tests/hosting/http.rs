//! Servers that speak HTTP themselves.

use std::time::Duration;

use emergent_mcp_bridge::front::{Connector, Opening, Principal};
use emergent_mcp_bridge::{RawJson, Reply};
use emergent_mcp_hosting::{CallFailure, Options, Registration, Update};
use emergent_types::{ServerHealth, ServerMode};
use serde_json::Value;

use crate::http_program::HttpProgram;
use crate::setup::{Installation, eventually};

/// The program itself listens nowhere: who does is the test, on the port that is the same here.
fn registration(port: u16, program: &str) -> Registration {
    Registration {
        name: Some("http".to_owned()),
        stdio_bridge: Some(false),
        port: Some(port.into()),
        command: Some(["/bin/sh", "-c", program].map(str::to_owned).to_vec()),
        ..Registration::default()
    }
}

async fn ask(installation: &Installation, method: &str, params: &str) -> Result<Value, CallFailure> {
    let params = RawJson::parse(params).unwrap();
    Ok(match installation.servers().call("http", method, Some(params), None).await? {
        Reply::Result(result) => serde_json::from_str(result.as_str()).unwrap(),
        Reply::Error(error) => panic!("{}", error.as_str()),
    })
}

const ECHO: &str = r#"{"name":"echo","arguments":{"text":"hello"}}"#;

#[tokio::test]
async fn it_is_called_and_its_tools_are_allowed_and_denied_like_any_other() {
    let program = HttpProgram::listen(0).await;
    let installation = Installation::start().await;
    let registration = Registration {
        tools_deny: Some(vec!["secret".to_owned()]),
        path: Some("/deep/mcp?key=1".to_owned()),
        ..registration(program.port, "echo listening; exec sleep 1000")
    };
    let view = installation.servers().register(registration).await.unwrap();
    assert_eq!(view.health, ServerHealth::Ok, "{view:?}");
    assert_eq!(view.bridge.as_str(), "ready");
    let list = ask(&installation, "tools/list", "{}").await.unwrap();
    assert_eq!(list["tools"].as_array().unwrap().len(), 1, "{list}");
    assert_eq!(ask(&installation, "tools/call", ECHO).await.unwrap()["content"][0]["text"], "hello");
    let refused = ask(&installation, "tools/call", r#"{"name":"secret"}"#).await;
    assert!(matches!(refused, Err(CallFailure::ToolRefused { .. })), "{refused:?}");
    let asked = program.asked.lock().unwrap().clone();
    assert!(!asked.is_empty() && asked.iter().all(|(path, _)| path == "/deep/mcp"), "{asked:?}");
    assert!(asked.iter().all(|(_, headers)| headers["host"] == format!("127.0.0.1:{}", program.port)));
    // What it prints is for people.
    let logs = installation.servers().logs("http", 0, 100).unwrap();
    assert!(logs.lines.iter().any(|line| line.text == "listening"), "{logs:?}");
}

#[tokio::test]
async fn it_is_ready_when_its_port_answers() {
    // A port that is free for certain, until somebody listens there.
    let port = HttpProgram::listen(0).await.port;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert_ne!(port, free);
    let options = Options { patience: Duration::from_millis(300), ..Options::default() };
    let installation = Installation::start_with(options).await;
    let view = installation.servers().register(registration(free, "exec sleep 1000")).await.unwrap();
    assert_eq!(view.health, ServerHealth::Starting);
    let _program = HttpProgram::listen(free).await;
    installation.wait_for("http", ServerHealth::Ok).await;
    assert_eq!(ask(&installation, "tools/call", ECHO).await.unwrap()["content"][0]["text"], "hello");
}

#[tokio::test]
async fn one_that_ends_before_it_listens_has_crashed() {
    let installation = Installation::start().await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let registration = Registration {
        restart_policy: Some("never".to_owned()),
        ..registration(free, "echo 'address in use' >&2; exit 3")
    };
    let view = installation.servers().register(registration).await.unwrap();
    assert_eq!(view.health, ServerHealth::Ended);
    let crash = view.last_crash.unwrap();
    assert_eq!(
        (crash.exit_code, crash.stderr.as_slice()),
        (Some(3), ["address in use".to_owned()].as_slice())
    );
    assert!(matches!(ask(&installation, "tools/list", "{}").await, Err(CallFailure::Unavailable { .. })));
}

#[tokio::test]
async fn sessions_that_it_forgets_are_begun_anew_without_a_restart() {
    let program = HttpProgram::listen(0).await;
    let installation = Installation::start().await;
    let registration = registration(program.port, "exec sleep 1000");
    installation.servers().register(registration).await.unwrap();
    for _ in 0..3 {
        program.forget();
        for _ in 0..500 {
            if let Ok(Reply::Result(_)) = call(&installation).await {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(matches!(call(&installation).await, Ok(Reply::Result(_))));
    }
    let view = installation.view("http").await;
    assert_eq!((view.restart_count, view.last_crash), (0, None), "the program went on all the time");
}

async fn call(installation: &Installation) -> Result<Reply, CallFailure> {
    let params = RawJson::parse(ECHO).unwrap();
    installation.servers().call("http", "tools/call", Some(params), None).await
}

#[tokio::test]
async fn dedicated_clients_have_a_session_each() {
    let program = HttpProgram::listen(0).await;
    let installation = Installation::start().await;
    let registration =
        Registration { mode: Some("dedicated".to_owned()), ..registration(program.port, "exec sleep 1000") };
    installation.servers().register(registration).await.unwrap();
    let way = installation.servers().way("http").unwrap();
    let open = async || {
        let opening = Opening { principal: Principal::new("me"), declaration: None };
        way.open(opening).await.unwrap()
    };
    let (one, other) = (open().await, open().await);
    let params = RawJson::parse(ECHO).unwrap();
    for opened in [&one, &other] {
        assert!(matches!(opened.handle.request("tools/call", &params, None).await, Ok(Reply::Result(_))));
    }
    assert_eq!(ask(&installation, "tools/call", ECHO).await.unwrap()["content"][0]["text"], "hello");
    drop((one, other));
    eventually("sessions end with their clients", || program.sessions() <= 1).await;
}

#[tokio::test]
async fn its_port_can_change() {
    let (old, new) = (HttpProgram::listen(0).await, HttpProgram::listen(0).await);
    let installation = Installation::start().await;
    installation.servers().register(registration(old.port, "exec sleep 1000")).await.unwrap();
    let update = Update {
        port: Some(new.port.into()),
        path: Some("/other".to_owned()),
        mode: Some(ServerMode::Shared),
        ..Update::default()
    };
    let view = installation.servers().update("http", update).await.unwrap();
    assert_eq!((view.server.port, view.server.path.as_deref()), (Some(new.port), Some("/other")));
    assert_eq!(ask(&installation, "tools/call", ECHO).await.unwrap()["content"][0]["text"], "hello");
    assert!(new.asked.lock().unwrap().iter().all(|(path, _)| path == "/other"));
    let wrong = Update { path: Some("no/slash".to_owned()), ..Update::default() };
    assert!(installation.servers().update("http", wrong).await.is_err());
}
