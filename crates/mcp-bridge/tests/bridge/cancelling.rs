use std::sync::Arc;
use std::time::Duration;

use emergent_mcp_bridge::{Bridge, CallError, Client, Options};
use serde_json::json;

use crate::support::{Fake, call, legacy, modern_call, nothing, pipes, plain, raw, value};

async fn cancel(client: &Client, id: &str) {
    let text =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
    client.notify(raw(text)).await.unwrap();
}

#[tokio::test]
async fn a_cancellation_is_mapped_and_the_late_answer_is_nobodys() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let (one, two) = (Arc::new(handle.connect().unwrap()), Arc::new(handle.connect().unwrap()));
    let ask = |client: &Arc<Client>| {
        let client = client.clone();
        tokio::spawn(async move { client.request(call("1", "tools/call", "{}")).await })
    };
    let first = ask(&one);
    let first_id = fake.hear().await;
    let second = ask(&two);
    let second_id = fake.hear().await;
    // 1.0 is the same id, and the other client's call of that id is not meant.
    cancel(&one, "1.0").await;
    assert_eq!(first.await.unwrap().unwrap_err(), CallError::Cancelled);
    let told = fake.expect("notifications/cancelled").await;
    assert_eq!(told["params"]["requestId"], first_id["id"]);
    let third = ask(&one);
    let third_id = fake.hear().await;
    fake.answer(&first_id, json!("late")).await;
    fake.answer(&third_id, json!("third")).await;
    fake.answer(&second_id, json!("second")).await;
    assert_eq!(value(&third.await.unwrap().unwrap())["result"], "third");
    assert_eq!(value(&second.await.unwrap().unwrap())["result"], "second");
    assert_eq!(handle.stats().late_answers, 1);
    // Unknown, over, and without an id: all are harmless.
    cancel(&one, "1").await;
    cancel(&one, "99").await;
    cancel(&one, "null").await;
    fake.silence(30).await;
}

#[tokio::test(start_paused = true)]
async fn a_timeout_disturbs_nobody() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    let (error, late) = tokio::join!(client.request(call("1", "tools/call", "{}")), async {
        let late = fake.hear().await;
        let told = fake.expect("notifications/cancelled").await;
        assert_eq!(told["params"]["requestId"], late["id"]);
        late
    });
    assert_eq!(error.unwrap_err(), CallError::TimedOut(Duration::from_secs(30)));
    let (got, ()) = tokio::join!(client.request(call("1", "tools/call", "{}")), async {
        let request = fake.hear().await;
        assert_ne!(request["id"], late["id"]);
        fake.say(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{},"progress":1}}}}"#, late["id"])).await;
        fake.answer(&late, json!("late")).await;
        fake.answer(&request, json!("mine")).await;
    });
    assert_eq!(value(&got.unwrap())["result"], "mine");
    nothing(&client).await;

    let short = Some(Duration::from_millis(50));
    let error = handle.call_tool("t", None, short).await.unwrap_err();
    assert_eq!(error, CallError::TimedOut(Duration::from_millis(50)));
}

#[tokio::test]
async fn a_lost_connection_cancels_only_in_the_newer_era() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    drop(client.begin(call("1", "tools/call", "{}"), None).await.unwrap());
    let old = fake.expect("tools/call").await;
    fake.silence(30).await;
    fake.answer(&old, json!({})).await;
    let lost = client.begin(modern_call("2", "tools/call", ""), None).await.unwrap();
    let new = fake.expect("tools/call").await;
    drop(lost);
    assert_eq!(fake.expect("notifications/cancelled").await["params"]["requestId"], new["id"]);
    // The client itself may go too.
    let call = client.begin(call("3", "tools/call", "{}"), None).await.unwrap();
    drop(client);
    let last = fake.expect("tools/call").await;
    fake.answer(&last, json!("still")).await;
    assert_eq!(value(&call.answer().await.unwrap())["result"], "still");
}

/// The answer and the cancellation meet everywhere on the way; a call gets the one or the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn races_end_in_one_of_two_ways() {
    let (handle, _ended) = crate::support::echo(Options::default());
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let client = Arc::new(handle.connect().unwrap());
        tasks.push(tokio::spawn(async move {
            let mut cancelled = 0;
            for n in 0..200u64 {
                let id = n.to_string();
                let request = call(&id, "tools/call", &format!(r#"{{"arguments":{n}}}"#));
                let asked = tokio::spawn({
                    let client = client.clone();
                    async move { client.request(request).await }
                });
                for _ in 0..n % 7 {
                    tokio::task::yield_now().await;
                }
                cancel(&client, &id).await;
                match asked.await.unwrap() {
                    Ok(answer) => assert_eq!(value(&answer), json!({"jsonrpc": "2.0", "id": n, "result": n})),
                    Err(error) => {
                        assert_eq!(error, CallError::Cancelled);
                        cancelled += 1;
                    }
                }
            }
            let answer =
                client.request(call("\"end\"", "tools/call", r#"{"arguments":"end"}"#)).await.unwrap();
            assert_eq!(value(&answer)["result"], "end");
            cancelled
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

/// A call whose server is seen to work is not given up, until it takes too long all the same.
#[tokio::test(start_paused = true)]
async fn progress_is_time() {
    let options =
        || Options { call_timeout: Duration::from_secs(2), longest_call: Duration::from_secs(9), ..plain() };
    let (io, mut fake) = pipes(1 << 16);
    let (handle, _ended) = Bridge::start(options(), io);
    fake.initialize().await;
    let client = handle.connect().unwrap();
    let request = || call("1", "tools/call", r#"{"_meta":{"progressToken":"p"}}"#);
    let work = async |fake: &mut Fake, steps: usize| {
        let heard = fake.expect("tools/call").await;
        let token = &heard["params"]["_meta"]["progressToken"];
        for _ in 0..steps {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            fake.say(&format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
            ))
            .await;
        }
        heard
    };
    let (answer, ()) = tokio::join!(client.request(request()), async {
        let heard = work(&mut fake, 5).await;
        fake.answer(&heard, json!({})).await;
    });
    answer.unwrap();
    let began = tokio::time::Instant::now();
    let (answer, took) =
        tokio::join!(async { (client.request(request()).await, began.elapsed()) }, work(&mut fake, 10));
    assert!(took["id"].is_u64());
    assert_eq!(answer.0.unwrap_err(), CallError::TimedOut(Duration::from_secs(2)));
    assert!(answer.1 >= Duration::from_secs(9) && answer.1 < Duration::from_secs(10), "{:?}", answer.1);
}
