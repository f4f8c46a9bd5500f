//! Terminals over WebSockets.

use std::time::{Duration, Instant};

use bytes::Bytes;
use emergent_client::{TerminalEvent, TerminalExit, TerminalReader, TerminalRequest};
use emergent_test_support::{Sandbox, eventually};
use reqwest::Method;
use serde_json::json;

use crate::api::{Api, moment};

/// Reads until the screen has shown `text`.
async fn until(reader: &mut TerminalReader, text: &str) -> String {
    let mut shown = String::new();
    while !shown.contains(text) {
        match tokio::time::timeout(Duration::from_secs(20), reader.next()).await {
            Ok(Ok(Some(TerminalEvent::Data(data)))) => shown += &String::from_utf8_lossy(&data),
            other => panic!("{other:?} after {shown:?}"),
        }
    }
    shown
}

#[tokio::test]
async fn a_terminal_shows_what_is_typed_into_it() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let client = api.server.client();
    let request = TerminalRequest {
        command: Some("stty size; tty; exec bash --norc".to_owned()),
        workdir: Some("/tmp".to_owned()),
        columns: Some(120),
        rows: Some(40),
        ..TerminalRequest::default()
    };
    let (mut reader, mut writer) = client.terminal(workspace.id, &request).await.unwrap();
    let shown = until(&mut reader, "/dev/pts/").await;
    assert!(shown.contains("40 120"), "{shown:?}");
    writer.send(Bytes::from_static(b"echo $((6*7))-$PWD\n")).await.unwrap();
    until(&mut reader, "42-/tmp").await;
    writer.resize(100, 30).await.unwrap();
    writer.send(Bytes::from_static(b"stty size\n")).await.unwrap();
    until(&mut reader, "30 100").await;
    writer.send(Bytes::from_static(b"exit 7\n")).await.unwrap();
    let exit = loop {
        match reader.next().await.unwrap() {
            Some(TerminalEvent::Exit(exit)) => break exit,
            Some(TerminalEvent::Data(_)) => {}
            None => panic!("closed without an exit"),
        }
    };
    assert_eq!(exit, TerminalExit { code: 7, signal: None, oom_killed: false });
    assert_eq!(reader.next().await.unwrap(), None);

    // Closing ends the command with everything it started.
    let request =
        TerminalRequest { command: Some("sleep 7654 & sleep 7655".to_owned()), ..Default::default() };
    let (reader, writer) = client.terminal(workspace.id, &request).await.unwrap();
    eventually("it runs", Duration::from_secs(10), async || {
        Sandbox::of(workspace.id).runs("sleep 7655").then_some(())
    })
    .await;
    drop((reader, writer));
    eventually("it is over", Duration::from_secs(15), async || {
        let sandbox = Sandbox::of(workspace.id);
        (!sandbox.runs("sleep 7654") && !sandbox.runs("sleep 7655")).then_some(())
    })
    .await;
    api.finish().await;
}

#[tokio::test]
async fn what_is_asked_must_make_sense() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let path = workspace.path("/terminal");
    assert_eq!(api.get(&path).await.failure(), (426, "upgrade_required"));
    for (query, field) in
        [("columns=0", "columns"), ("rows=99999", "rows"), ("command=%00", "command"), ("x=1", "x")]
    {
        let path = format!("{path}?{query}");
        let request = api
            .probe()
            .request(Method::GET, &path)
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let answer = api.call(Method::GET, &path, request).await;
        assert_eq!(answer.status, 400, "{query}");
        assert_eq!(answer.detail("field"), &json!(field));
    }
    let client = api.server.client();
    let nowhere = TerminalRequest { workdir: Some("/nope".to_owned()), ..Default::default() };
    let Err(error) = client.terminal(workspace.id, &nowhere).await else { panic!("it opened") };
    assert_eq!(error.code(), Some("invalid_request"), "{error}");
    let foreign = emergent_client::Client::new(api.server.url(), "wrong").unwrap();
    let Err(error) = foreign.terminal(workspace.id, &TerminalRequest::default()).await else {
        panic!("it opened")
    };
    assert_eq!(error.code(), Some("unauthorized"), "{error}");
    api.finish().await;
}

/// A terminal does not hold the server up, and hears of its end.
#[tokio::test]
async fn a_terminal_ends_with_the_server() {
    let mut api = Api::start().await;
    let workspace = api.create().await;
    let id = workspace.id;
    let client = api.server.client();
    let request = TerminalRequest { command: Some("sleep 6543".to_owned()), ..Default::default() };
    let (mut reader, _writer) = client.terminal(id, &request).await.unwrap();
    eventually("it runs", Duration::from_secs(10), async || Sandbox::of(id).runs("sleep 6543").then_some(()))
        .await;
    let begun = Instant::now();
    let (status, end) = tokio::join!(api.server.terminate(), reader.next());
    assert!(status.success() && begun.elapsed() < Duration::from_secs(8), "{status} {:?}", begun.elapsed());
    assert_eq!(end.unwrap(), None);
    moment(100).await;
    api.restart().await;
    api.finish().await;
}
