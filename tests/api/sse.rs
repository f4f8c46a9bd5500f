//! Output while it comes.

use std::time::{Duration, Instant};

use emergent_client::{BashRequest, CommandEvent, OutputStream};
use emergent_test_support::{Sandbox, eventually};
use reqwest::Method;
use serde_json::json;

use crate::api::{Api, moment};

#[tokio::test]
async fn output_comes_while_the_command_runs() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let client = api.server.client();
    let command =
        "printf 'a\\303'; sleep 0.3; printf '\\244\\377'; echo err >&2; read -t 60 < /workspace/go; exit 3";
    workspace.sh("mkfifo go").await;
    let mut stream = client.exec_stream(workspace.id, &BashRequest::new(command)).await.unwrap();
    assert_eq!(stream.next().await.unwrap(), Some(CommandEvent::Started));
    let (mut stdout, mut stderr) = (String::new(), String::new());
    while stdout != "aä\u{fffd}" || stderr != "err\n" {
        match stream.next().await.unwrap().expect("it has not ended") {
            CommandEvent::Stdout(text) => stdout += &text,
            CommandEvent::Stderr(text) => stderr += &text,
            other => panic!("{other:?}"),
        }
    }
    // It waits for this, so everything above came before its end.
    workspace.sh("echo > go").await;
    let Some(CommandEvent::Exit(exit)) = stream.next().await.unwrap() else { panic!("no exit") };
    assert_eq!((exit.exit_code, exit.stdout.as_str(), exit.stderr.as_str()), (3, "aä\u{fffd}", "err\n"));
    assert!(!exit.timed_out && !exit.truncated && exit.output_file.is_none());
    assert_eq!(stream.next().await.unwrap(), None);

    let limited = BashRequest { timeout_ms: Some(300), ..BashRequest::new("echo begun; sleep 1000") };
    let mut stream = client.exec_stream(workspace.id, &limited).await.unwrap();
    let mut last = None;
    while let Some(event) = stream.next().await.unwrap() {
        last = Some(event);
    }
    let Some(CommandEvent::Exit(exit)) = last else { panic!("no exit") };
    assert!(exit.timed_out && exit.stdout == "begun\n");
    api.finish().await;
}

#[tokio::test]
async fn only_who_asks_for_events_gets_them() {
    let api = Api::start().await;
    let workspace = api.create().await;
    for path in [workspace.path("/bash"), workspace.path("/exec")] {
        for (accept, kind) in [
            ("*/*", "application/json"),
            ("application/json, text/event-stream", "application/json"),
            ("text/event-stream", "text/event-stream"),
        ] {
            let request = api.probe().request(Method::POST, &path).header("accept", accept);
            let answer = request.json(&json!({"command": "echo hi"})).send().await.unwrap();
            assert_eq!(answer.headers()["content-type"], kind, "{accept}");
            assert_eq!(answer.headers()["cache-control"], "no-store");
            let text = answer.text().await.unwrap();
            if kind == "text/event-stream" {
                assert!(text.contains("event: stdout\ndata: {\"text\":\"hi\\n\"}\n\n"), "{text}");
                assert!(text.contains("event: exit\ndata: {\"stdout\":\"hi\\n\""), "{text}");
            }
        }
    }
    let path = workspace.path("/bash");
    let ask = |accept: &str, body| {
        let request = api.probe().request(Method::POST, &path).header("accept", accept);
        api.call(Method::POST, &path, request.json(&body))
    };
    assert_eq!(ask("text/html", json!({"command": "touch ran"})).await.failure(), (406, "not_acceptable"));
    let background = ask("text/event-stream", json!({"command": "touch ran", "background": true})).await;
    assert_eq!(
        (background.failure(), background.detail("field")),
        ((400, "invalid_request"), &json!("background"))
    );
    let nowhere = ask("text/event-stream", json!({"command": "touch ran", "workdir": "/nope"})).await;
    assert_eq!(nowhere.failure(), (400, "invalid_request"), "what never started is an ordinary error");
    assert_eq!(workspace.sh("ls -A").await, "");
    api.finish().await;
}

#[tokio::test]
async fn a_streamed_command_whose_client_has_gone_is_killed() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let client = api.server.client();
    let silent = BashRequest::new("setsid sleep 8765 & sleep 8766");
    let mut stream = client.exec_stream(workspace.id, &silent).await.unwrap();
    assert_eq!(stream.next().await.unwrap(), Some(CommandEvent::Started));
    eventually("it runs", Duration::from_secs(5), async || {
        Sandbox::of(workspace.id).runs("sleep 8765").then_some(())
    })
    .await;
    drop(stream);
    drop(client);
    eventually("it is killed", Duration::from_secs(10), async || {
        let sandbox = Sandbox::of(workspace.id);
        (!sandbox.runs("sleep 8765") && !sandbox.runs("sleep 8766")).then_some(())
    })
    .await;
    api.finish().await;
}

/// Somebody who does not read slows the command, not the server, and nothing piles up.
#[tokio::test]
async fn a_slow_reader_slows_only_itself() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let client = api.server.client();
    let before = api.server.resident_kib();
    let endless = BashRequest { timeout_ms: Some(20_000), ..BashRequest::new("yes") };
    let mut stream = client.exec_stream(workspace.id, &endless).await.unwrap();
    assert_eq!(stream.next().await.unwrap(), Some(CommandEvent::Started));
    moment(1500).await;
    let begun = Instant::now();
    assert_eq!(workspace.sh("echo fine").await, "fine\n");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let grown = api.server.resident_kib().saturating_sub(before);
    assert!(grown < 24 << 10, "{grown} KiB more");
    drop(stream);
    eventually("it is killed", Duration::from_secs(10), async || {
        (!Sandbox::of(workspace.id).runs("yes")).then_some(())
    })
    .await;
    api.finish().await;
}

#[tokio::test]
async fn a_background_process_can_be_followed() {
    let api = Api::start().await;
    let workspace = api.create().await;
    let client = api.server.client();
    workspace.sh("mkfifo go").await;
    let command =
        BashRequest::new("printf 'one\\303'; read -t 60 < /workspace/go; printf '\\244two'; echo e >&2");
    let started = client.bash_in_background(workspace.id, &command).await.unwrap();
    let follow = |stream, offset, follow| {
        client.follow_process(workspace.id, started.process_id, stream, offset, follow)
    };
    let mut all = follow(OutputStream::Stdout, 0, true).await.unwrap();
    let first = all.next().await.unwrap().unwrap();
    assert_eq!((first.offset, first.text.as_str(), first.next_offset), (0, "one", 3));
    workspace.sh("echo > go").await;
    let rest = all.next().await.unwrap().unwrap();
    assert_eq!((rest.offset, rest.text.as_str(), rest.next_offset), (3, "ätwo", 8));
    assert_eq!(all.next().await.unwrap(), None, "it has ended");
    let mut part = follow(OutputStream::Stdout, 5, false).await.unwrap();
    assert_eq!(part.next().await.unwrap().unwrap().text, "two");
    assert_eq!(part.next().await.unwrap(), None);
    assert_eq!(
        follow(OutputStream::Stderr, 0, false).await.unwrap().next().await.unwrap().unwrap().text,
        "e\n"
    );
    let missing = api.get(&workspace.path("/processes/999/output")).await;
    assert_eq!(missing.failure(), (404, "process_not_found"));
    let path = workspace.path(&format!("/processes/{}/output", started.process_id));
    for (query, field) in
        [("stream=stdin", "stream"), ("offset=-1", "offset"), ("follow=maybe", "follow"), ("x=1", "x")]
    {
        let answer = api.get(&format!("{path}?{query}")).await;
        assert_eq!((answer.failure(), answer.detail("field")), ((400, "invalid_request"), &json!(field)));
    }
    api.finish().await;
}
