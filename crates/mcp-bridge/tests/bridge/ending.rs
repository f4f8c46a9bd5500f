use std::sync::Arc;
use std::time::Duration;

use emergent_mcp_bridge::{Bridge, CallError, EndReason, Exit, Options, Phase};
use serde_json::json;

use crate::support::{call, introduce, legacy, modern_call, next_notice, nothing, pipes, plain, value};

#[tokio::test]
async fn open_calls_fail_at_once_with_the_reason() {
    let (io, mut fake) = pipes(1 << 16);
    let (tell, told) = tokio::sync::oneshot::channel::<Exit>();
    let io = io.with_exit(async move { told.await.unwrap() });
    let (handle, ended) = Bridge::start(plain(), io);
    fake.initialize().await;
    let client = handle.connect().unwrap();
    let asked: Vec<_> = futures::future::join_all(
        (0..20).map(|n| client.begin(call(&n.to_string(), "tools/call", "{}"), None)),
    )
    .await;
    for _ in 0..20 {
        fake.expect("tools/call").await;
    }
    drop(fake);
    tell.send(Exit { status: "exit code 3".into(), stderr_tail: "out of cheese".into() }).unwrap();
    let start = std::time::Instant::now();
    for call in asked {
        let error = call.unwrap().answer().await.unwrap_err();
        assert!(matches!(error, CallError::Ended { sent: true, .. }));
        assert!(!error.is_retryable());
        let text = error.to_string();
        assert!(text.contains("exit code 3") && text.contains("out of cheese"), "{text}");
    }
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(matches!(ended.await.unwrap().reason(), EndReason::Exited(_)));
    assert!(matches!(&*handle.phase().borrow(), Phase::Ended { .. }));
}

#[tokio::test]
async fn the_last_answer_of_a_process_that_ends_still_arrives() {
    let (io, mut fake) = pipes(1 << 16);
    let (tell, told) = tokio::sync::oneshot::channel::<Exit>();
    let (handle, _ended) = Bridge::start(plain(), io.with_exit(async move { told.await.unwrap() }));
    fake.initialize().await;
    let client = handle.connect().unwrap();
    let (got, ()) = tokio::join!(client.request(call("1", "tools/call", "{}")), async {
        let request = fake.hear().await;
        tell.send(Exit { status: "exit code 0".into(), stderr_tail: String::new() }).unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        fake.answer(&request, json!("last words")).await;
        drop(fake);
    });
    assert_eq!(value(&got.unwrap())["result"], "last words");
}

#[tokio::test]
async fn nothing_is_repeated_and_subscriptions_come_back() {
    let (handle, mut fake, ended) = legacy(Options::default()).await;
    let client = Arc::new(handle.connect().unwrap());
    introduce(&client, "2025-11-25").await;
    for (id, method, params) in [
        ("1", "resources/subscribe", r#"{"uri":"file:///a"}"#),
        ("2", "logging/setLevel", r#"{"level":"warning"}"#),
    ] {
        let (got, ()) = tokio::join!(client.request(call(id, method, params)), async {
            let request = fake.expect(method).await;
            fake.answer(&request, json!({})).await;
        });
        got.unwrap();
    }
    let listener = handle.connect().unwrap();
    let members = r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///b"]}"#;
    let listening =
        listener.begin(modern_call("\"L\"", "subscriptions/listen", members), None).await.unwrap();
    assert_eq!(next_notice(&listener).await["method"], "notifications/subscriptions/acknowledged");
    let own = fake.expect("resources/subscribe").await;
    fake.answer(&own, json!({})).await;
    let lost = client.begin(call("3", "tools/call", "{}"), None).await.unwrap();
    fake.expect("tools/call").await;
    drop(fake);
    assert!(matches!(lost.answer().await.unwrap_err(), CallError::Ended { sent: true, .. }));

    // A call in between waits for the next process.
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.request(call("4", "tools/call", "{}")).await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    let (io, mut fake) = pipes(1 << 16);
    let ended = ended.await.unwrap().restart(io);
    fake.be_legacy().await;
    assert_eq!(fake.expect("logging/setLevel").await["params"]["level"], "warning");
    assert_eq!(fake.expect("resources/subscribe").await["params"]["uri"], "file:///a");
    assert_eq!(fake.expect("resources/subscribe").await["params"]["uri"], "file:///b");
    let request = fake.expect("tools/call").await;
    fake.answer(&request, json!("second life")).await;
    assert_eq!(
        value(&waiting.await.unwrap().unwrap()),
        json!({"jsonrpc": "2.0", "id": 4, "result": "second life"})
    );
    fake.silence(30).await;

    for list in ["tools", "prompts", "resources"] {
        assert_eq!(next_notice(&client).await["method"], format!("notifications/{list}/list_changed"));
    }
    nothing(&client).await;
    assert_eq!(next_notice(&listener).await["method"], "notifications/subscriptions/acknowledged");
    let changed = next_notice(&listener).await;
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "L");
    nothing(&listener).await;
    for uri in ["file:///a", "file:///b"] {
        fake.say(
            &json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}})
                .to_string(),
        )
        .await;
    }
    assert_eq!(next_notice(&client).await["params"]["uri"], "file:///a");
    assert_eq!(next_notice(&listener).await["params"]["uri"], "file:///b");
    listening.cancel();
    assert_eq!(listening.answer().await.unwrap_err(), CallError::Cancelled);
    drop(ended);
}

#[tokio::test]
async fn a_subscription_that_failed_with_its_process_does_not_come_back() {
    let (handle, mut fake, ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    let lost = client.begin(call("1", "resources/subscribe", r#"{"uri":"x"}"#), None).await.unwrap();
    fake.expect("resources/subscribe").await;
    drop(fake);
    lost.answer().await.unwrap_err();
    let (io, mut fake) = pipes(1 << 16);
    let _ended = ended.await.unwrap().restart(io);
    fake.be_legacy().await;
    fake.silence(30).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_restart_only_so_long() {
    let (handle, fake, ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    drop(fake);
    let ended = ended.await.unwrap();
    let start = tokio::time::Instant::now();
    let error = client.request(call("1", "tools/call", "{}")).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert_eq!(start.elapsed().as_secs(), 5);
    // And not at all once it is clear that there will be none.
    drop(ended);
    let start = tokio::time::Instant::now();
    client.request(call("2", "tools/call", "{}")).await.unwrap_err();
    handle.call_tool("t", None, None).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn closing_and_leaving_both_end_it() {
    let (handle, mut fake, ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    let lost = client.begin(call("1", "tools/call", "{}"), None).await.unwrap();
    fake.expect("tools/call").await;
    handle.close();
    assert_eq!(*ended.await.unwrap().reason(), EndReason::Closed);
    assert!(lost.answer().await.is_err());
    assert!(fake.input.next_line().await.unwrap().is_none(), "stdin is closed");

    let (handle, mut fake, ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    drop(handle);
    fake.silence(20).await;
    drop(client);
    assert_eq!(*ended.await.unwrap().reason(), EndReason::Closed);
}

#[tokio::test]
async fn a_ping_goes_through_and_waits_for_no_turn() {
    let (handle, mut fake, _ended) = legacy(Options { serialize: true, ..Options::default() }).await;
    let client = handle.connect().unwrap();
    let busy = client.begin(call("1", "tools/call", "{}"), None).await.unwrap();
    let request = fake.expect("tools/call").await;
    let (pong, ()) = tokio::join!(handle.ping(Duration::from_secs(5)), async {
        let ping = fake.expect("ping").await;
        fake.answer(&ping, json!({})).await;
    });
    pong.unwrap();
    fake.answer(&request, json!({})).await;
    busy.answer().await.unwrap();
    assert_eq!(
        handle.ping(Duration::from_millis(20)).await.unwrap_err(),
        CallError::TimedOut(Duration::from_millis(20))
    );
}
