use std::sync::Arc;
use std::time::Duration;

use emergent_mcp_bridge::{Bridge, CallError, Options};
use serde_json::json;

use crate::support::{call, introduce, legacy, next_notice, pipes, plain, value};

#[tokio::test]
async fn a_client_that_does_not_read_stops_nobody() {
    let (handle, mut fake, _ended) = legacy(Options { max_mailbox: 8, ..Options::default() }).await;
    let (slow, quick) = (handle.connect().unwrap(), handle.connect().unwrap());
    introduce(&slow, "2025-11-25").await;
    let call_with_token = call("1", "tools/call", r#"{"_meta":{"progressToken":1}}"#);
    let long = slow.begin(call_with_token, None).await.unwrap();
    let heard = fake.expect("tools/call").await;
    for n in 0..5000 {
        fake.say(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": heard["params"]["_meta"]["progressToken"], "progress": n}}).to_string()).await;
        fake.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#).await;
    }
    let (got, ()) = tokio::join!(quick.request(call("1", "tools/call", "{}")), async {
        let request = fake.expect("tools/call").await;
        fake.answer(&request, json!("quick")).await;
    });
    assert_eq!(value(&got.unwrap())["result"], "quick");
    fake.answer(&heard, json!("long")).await;
    assert_eq!(value(&long.answer().await.unwrap())["result"], "long");
    let mut methods = Vec::new();
    for _ in 0..9 {
        methods.push(next_notice(&slow).await["method"].as_str().unwrap().to_owned());
    }
    methods.sort();
    assert_eq!(methods.iter().filter(|method| method.ends_with("progress")).count(), 8);
    assert_eq!(methods[8], "notifications/tools/list_changed");
    assert_eq!(handle.stats().missed, 4992);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_read_makes_callers_wait_and_time_out() {
    let (io, mut fake) = pipes(1024);
    let options = Options {
        max_line_bytes: 64 << 10,
        max_waiting_bytes: 256 << 10,
        max_calls_per_client: 1000,
        ..plain()
    };
    let (handle, _ended) = Bridge::start(options, io);
    fake.initialize().await;
    let client = Arc::new(handle.connect().unwrap());
    let big = format!(r#"{{"arguments":"{}"}}"#, "x".repeat(50_000));
    let mut begun = 0;
    let mut calls = Vec::new();
    for n in 0..50 {
        match client.begin(call(&n.to_string(), "tools/call", &big), Some(Duration::from_secs(1))).await {
            Ok(call) => {
                begun += 1;
                calls.push(call);
            }
            Err(error) => assert_eq!(error, CallError::TimedOut(Duration::from_secs(1))),
        }
    }
    assert!(begun <= 6, "{begun} calls of 50 kB were let in where 256 kB may wait");
    for call in calls {
        assert_eq!(call.answer().await.unwrap_err(), CallError::TimedOut(Duration::from_secs(1)));
    }
    // It reads again: all that was let in arrives, then what is asked now.
    let fresh = tokio::spawn(async move { client.request(call("\"now\"", "tools/list", "{}")).await });
    loop {
        let heard = fake.hear().await;
        if heard["method"] == "tools/list" {
            fake.answer(&heard, json!("alive")).await;
            break;
        }
    }
    assert_eq!(value(&fresh.await.unwrap().unwrap())["result"], "alive");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_and_does_not_read_is_not_answered_for_ever() {
    let (io, mut fake) = pipes(512);
    let (handle, _ended) = Bridge::start(plain(), io);
    fake.initialize().await;
    for id in 0..2000 {
        fake.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)).await;
    }
    fake.say("done").await;
    while handle.stats().garbage_lines == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(handle.stats().refused_requests > 1800, "{:?}", handle.stats());
}

#[tokio::test(start_paused = true)]
async fn one_client_cannot_take_all_places() {
    let options = Options { max_calls: 4, max_calls_per_client: 2, ..Options::default() };
    let (handle, mut fake, _ended) = legacy(options).await;
    let (greedy, modest) = (handle.connect().unwrap(), handle.connect().unwrap());
    let short = Some(Duration::from_millis(100));
    let mut kept = Vec::new();
    for n in 0..5 {
        kept.push(greedy.begin(call(&n.to_string(), "tools/call", "{}"), short).await);
    }
    assert_eq!(
        kept.iter().filter(|call| call.is_ok()).count(),
        2,
        "an answer that nobody took keeps its place"
    );
    let (got, ()) = tokio::join!(modest.request(call("1", "tools/list", "{}")), async {
        loop {
            let request = fake.hear().await;
            if request["method"] == "tools/list" {
                return fake.answer(&request, json!({})).await;
            }
        }
    });
    got.unwrap();
    drop(kept);
    greedy.begin(call("9", "tools/call", "{}"), short).await.unwrap();
}

#[tokio::test]
async fn subscriptions_are_bounded() {
    let (handle, mut fake, _ended) = legacy(Options { max_subscriptions: 3, ..Options::default() }).await;
    let client = handle.connect().unwrap();
    for n in 0..4 {
        let request = call("1", "resources/subscribe", &json!({"uri": n.to_string()}).to_string());
        let (answer, ()) = tokio::join!(client.request(request), async {
            if n < 3 {
                let request = fake.expect("resources/subscribe").await;
                fake.answer(&request, json!({})).await;
            }
        });
        assert_eq!(value(&answer.unwrap()).get("error").is_some(), n == 3);
    }
}
