use std::time::Duration;

use emergent_mcp_bridge::front::FrontOptions;
use http::StatusCode;
use serde_json::{Value, json};

use super::web::{Web, scripted, settle};
use crate::support::Fake;

fn quick() -> FrontOptions {
    FrontOptions { json_grace: Duration::from_millis(20), ..FrontOptions::default() }
}

async fn progress(fake: &mut Fake, request: &Value, n: u64) {
    let token = &request["params"]["_meta"]["progressToken"];
    let params = json!({"progressToken": token, "progress": n});
    fake.say(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).to_string())
        .await;
}

fn with_progress(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t", "_meta": {"progressToken": "p"}}})
}

#[tokio::test]
async fn a_lost_stream_is_taken_up_again_and_no_other() {
    let (front, mut fake, _ended) = scripted(quick()).await;
    let web = Web::introduced(&front, "me", "2025-11-25").await;
    let mut first = web.post(&with_progress(1)).await.events();
    let mut other = web.post(&with_progress(2)).await.events();
    let (one, two) = (fake.expect("tools/call").await, fake.expect("tools/call").await);
    // A stream starts with an id to come back with.
    let primer = first.next().await.unwrap();
    assert_eq!(primer.data, Value::Null);
    assert!(primer.id.is_some());
    assert_eq!(other.next().await.unwrap().data, Value::Null);
    progress(&mut fake, &one, 1).await;
    let seen = first.next().await.unwrap();
    assert_eq!(seen.data["params"]["progressToken"], "p");
    // The connection is lost; that cancels nothing.
    drop(first);
    progress(&mut fake, &one, 2).await;
    progress(&mut fake, &two, 7).await;
    fake.answer(&one, json!({"done": 1})).await;
    fake.silence(30).await;
    settle().await;

    let mut again = web.get(seen.id.as_deref()).await.events();
    assert_eq!(again.data().await["params"]["progress"], 2);
    assert_eq!(again.data().await["result"], json!({"done": 1}));
    assert!(again.next().await.is_none(), "the stream is over");
    // From its start, as often as one likes.
    let mut all = web.get(primer.id.as_deref()).await.events();
    assert_eq!(all.data().await["params"]["progress"], 1);
    assert_eq!(all.data().await["params"]["progress"], 2);
    assert_eq!(all.data().await["result"], json!({"done": 1}));

    assert_eq!(other.data().await["params"]["progress"], 7);
    fake.answer(&two, json!({"done": 2})).await;
    assert_eq!(other.data().await["result"], json!({"done": 2}));
    assert!(other.next().await.is_none());
}

#[tokio::test]
async fn a_stream_can_be_taken_up_while_the_call_goes_on() {
    let (front, mut fake, _ended) = scripted(quick()).await;
    let web = Web::introduced(&front, "me", "2025-11-25").await;
    let mut first = web.post(&with_progress(1)).await.events();
    let primer = first.next().await.unwrap();
    drop(first);
    let request = fake.expect("tools/call").await;
    let mut again = web.get(primer.id.as_deref()).await.events();
    again.silence(30).await;
    progress(&mut fake, &request, 5).await;
    assert_eq!(again.data().await["params"]["progress"], 5);
    fake.answer(&request, json!({})).await;
    assert_eq!(again.data().await["id"], 1);
}

#[tokio::test]
async fn clients_of_earlier_versions_get_no_event_without_data() {
    let (front, mut fake, _ended) = scripted(quick()).await;
    let web = Web::introduced(&front, "me", "2025-06-18").await;
    let mut events = web.post(&with_progress(1)).await.events();
    let request = fake.expect("tools/call").await;
    fake.answer(&request, json!({})).await;
    assert_eq!(events.data().await["id"], 1);
}

#[tokio::test]
async fn what_is_kept_is_bounded() {
    let options = FrontOptions { max_stream_events: 4, max_replay_streams: 2, ..quick() };
    let (front, mut fake, _ended) = scripted(options).await;
    let web = Web::introduced(&front, "me", "2025-11-25").await;
    let mut primers = Vec::new();
    for id in 1..=3 {
        let mut events = web.post(&with_progress(id)).await.events();
        primers.push(events.next().await.unwrap().id.unwrap());
        drop(events);
        let request = fake.expect("tools/call").await;
        for n in 1..=10 {
            progress(&mut fake, &request, n).await;
        }
        fake.answer(&request, json!({"id": id})).await;
        fake.silence(30).await;
    }
    settle().await;
    assert_eq!(web.get(Some(&primers[0])).await.status, StatusCode::BAD_REQUEST, "it made room");
    let mut last = web.get(Some(&primers[2])).await.events();
    // The oldest are gone, the answer is not.
    for n in [8, 9, 10] {
        assert_eq!(last.data().await["params"]["progress"], n);
    }
    assert_eq!(last.data().await["result"], json!({"id": 3}));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_comes_back_for_is_forgotten() {
    let (front, mut fake, _ended) =
        scripted(FrontOptions { replay_ttl: Duration::from_secs(60), ..quick() }).await;
    let web = Web::introduced(&front, "me", "2025-11-25").await;
    let mut events = web.post(&with_progress(1)).await.events();
    let primer = events.next().await.unwrap().id.unwrap();
    let request = fake.expect("tools/call").await;
    fake.answer(&request, json!({})).await;
    assert_eq!(events.data().await["id"], 1);
    assert_eq!(web.get(Some(&primer)).await.status, StatusCode::OK);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(web.get(Some(&primer)).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn too_many_open_calls_are_turned_away() {
    let (front, mut fake, _ended) = scripted(FrontOptions { max_open: 1, ..quick() }).await;
    let web = Web::introduced(&front, "me", "2025-11-25").await;
    let mut open = web.post(&with_progress(1)).await.events();
    assert_eq!(open.data().await, Value::Null);
    assert_eq!(web.post(&with_progress(2)).await.status, StatusCode::TOO_MANY_REQUESTS);
    let request = fake.expect("tools/call").await;
    fake.answer(&request, json!({})).await;
    assert_eq!(open.data().await["id"], 1);
}
