use std::time::Duration;

use emergent_mcp_bridge::{CallError, Options};
use serde_json::json;

use crate::support::{call, legacy, value};

fn in_turn() -> Options {
    Options { serialize: true, ..Options::default() }
}

#[tokio::test]
async fn one_call_at_a_time_in_order() {
    let (handle, mut fake, _ended) = legacy(in_turn()).await;
    let clients: Vec<_> = (0..4).map(|_| handle.connect().unwrap()).collect();
    let mut asked = Vec::new();
    for n in 0..40 {
        let request = call("1", "tools/call", &format!(r#"{{"arguments":{n}}}"#));
        asked.push(clients[n % 4].begin(request, None).await.unwrap());
    }
    for n in 0..40 {
        let request = fake.expect("tools/call").await;
        assert_eq!(request["params"]["arguments"], n);
        if n < 3 {
            fake.silence(20).await;
        }
        fake.answer(&request, json!(n)).await;
    }
    for (n, call) in asked.into_iter().enumerate() {
        assert_eq!(value(&call.answer().await.unwrap())["result"], n);
    }
}

#[tokio::test]
async fn without_turns_calls_run_beside_each_other() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    for n in 0..5 {
        let call = client.begin(call(&n.to_string(), "tools/call", "{}"), None).await.unwrap();
        fake.expect("tools/call").await;
        drop(call);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_passes_its_turn_on() {
    let (handle, mut fake, _ended) = legacy(in_turn()).await;
    let client = handle.connect().unwrap();
    let short = Some(Duration::from_secs(1));
    let first = client.begin(call("1", "tools/call", "{}"), short).await.unwrap();
    let starved = client.begin(call("2", "tools/call", "{}"), short).await.unwrap();
    let cancelled = client.begin(call("3", "tools/call", "{}"), None).await.unwrap();
    let fourth = client.begin(call("4", "tools/call", "{}"), None).await.unwrap();
    let fifth = client.begin(call("5", "tools/call", "{}"), None).await.unwrap();
    let heard = fake.expect("tools/call").await;
    cancelled.cancel();
    assert_eq!(cancelled.answer().await.unwrap_err(), CallError::Cancelled);
    let started = tokio::time::Instant::now();
    assert_eq!(first.answer().await.unwrap_err(), CallError::TimedOut(Duration::from_secs(1)));
    assert_eq!(starved.answer().await.unwrap_err(), CallError::TimedOut(Duration::from_secs(1)));
    fake.expect("notifications/cancelled").await;
    // The server may still be at it: the turn settles first. Neither of the two others is ever sent.
    let next = fake.expect("tools/call").await;
    assert!(started.elapsed() >= Duration::from_secs(2), "{:?}", started.elapsed());
    fake.answer(&heard, json!("late")).await;
    fake.silence(20).await;
    fake.answer(&next, json!("fourth")).await;
    assert_eq!(
        value(&fourth.answer().await.unwrap()),
        json!({"jsonrpc": "2.0", "id": 4, "result": "fourth"})
    );
    let last = fake.expect("tools/call").await;
    fake.answer(&last, json!("fifth")).await;
    assert_eq!(value(&fifth.answer().await.unwrap())["result"], "fifth");
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_frees_the_turn_at_once() {
    let options = Options { settle: Duration::from_secs(3600), ..in_turn() };
    let (handle, mut fake, _ended) = legacy(options).await;
    let client = handle.connect().unwrap();
    let first = client.begin(call("1", "tools/call", "{}"), Some(Duration::from_secs(1))).await.unwrap();
    let second = client.begin(call("2", "tools/call", "{}"), None).await.unwrap();
    let heard = fake.expect("tools/call").await;
    first.answer().await.unwrap_err();
    fake.expect("notifications/cancelled").await;
    fake.answer(&heard, json!("late")).await;
    let next = fake.expect("tools/call").await;
    fake.answer(&next, json!("second")).await;
    assert_eq!(value(&second.answer().await.unwrap())["result"], "second");
}

/// Nobody takes the answer of a call for nobody in particular once its caller has gone.
#[tokio::test]
async fn a_caller_that_goes_away_passes_its_turn_on() {
    let (handle, mut fake, _ended) = legacy(in_turn()).await;
    let gone = {
        let handle = handle.clone();
        tokio::spawn(async move { handle.call_tool("slow", None, None).await })
    };
    let heard = fake.expect("tools/call").await;
    gone.abort();
    let told = tokio::time::timeout(Duration::from_secs(5), fake.expect("notifications/cancelled"));
    let told = told.await.expect("not only when its time is over");
    assert_eq!(told["params"]["requestId"], heard["id"]);
    let (answer, ()) = tokio::join!(handle.call_tool("next", None, Some(Duration::from_secs(5))), async {
        let next = fake.expect("tools/call").await;
        assert_eq!(next["params"]["name"], "next");
        fake.answer(&next, json!({})).await;
    });
    answer.unwrap();
}
