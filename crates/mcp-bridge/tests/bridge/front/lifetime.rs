use std::time::Duration;

use emergent_mcp_bridge::front::FrontOptions;
use http::StatusCode;
use serde_json::json;

use super::web::{Web, echoing, scripted};
use crate::support::pipes;

fn ping() -> serde_json::Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})
}

#[tokio::test(start_paused = true)]
async fn idle_sessions_end_even_with_a_stream_open() {
    let (front, _ended) = echoing(FrontOptions {
        idle_ttl: Duration::from_secs(100),
        pre_init_ttl: Duration::from_secs(10),
        ..FrontOptions::default()
    });
    let mut silent = Web::new(&front, "me");
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}});
    let got = silent.post(&hello).await;
    silent.session = Some(got.headers["mcp-session-id"].to_str().unwrap().to_owned());
    let busy = Web::introduced(&front, "me", "2025-11-25").await;
    let listening = Web::introduced(&front, "me", "2025-11-25").await;
    let mut events = listening.get(None).await.events();
    let heard = tokio::spawn(async move { (events.next().await, events.comments) });
    assert_eq!(front.sessions(), 3);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(front.sessions(), 2, "who says nothing after its introduction goes first");
    assert_eq!(silent.post(&ping()).await.status, StatusCode::NOT_FOUND);
    for _ in 0..4 {
        assert_eq!(busy.post(&ping()).await.status, StatusCode::OK);
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
    assert_eq!(front.sessions(), 1);
    let (end, comments) = heard.await.unwrap();
    assert!(end.is_none(), "its stream ends with it");
    assert!(comments >= 5, "it was kept alive until then");
    assert_eq!(listening.post(&ping()).await.status, StatusCode::NOT_FOUND);
    assert_eq!(busy.post(&ping()).await.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn an_open_call_is_not_idle() {
    let (front, mut fake, _ended) =
        scripted(FrontOptions { idle_ttl: Duration::from_secs(10), ..FrontOptions::default() }).await;
    let web = Web::introduced(&front, "me", "2025-11-25").await;
    let mut events = web.call(json!(1), "slow", json!({})).await.events();
    let request = fake.expect("tools/call").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    fake.answer(&request, json!({"at": "last"})).await;
    assert!(events.data().await.is_null());
    assert_eq!(events.data().await["result"]["at"], "last");
    assert_eq!(front.sessions(), 1);
}

#[tokio::test(start_paused = true)]
async fn sessions_are_bounded() {
    let options = FrontOptions {
        max_sessions: 4,
        max_sessions_per_principal: 2,
        min_idle_to_evict: Duration::from_secs(30),
        ..FrontOptions::default()
    };
    let (front, _ended) = echoing(options);
    let oldest = Web::introduced(&front, "a", "2025-11-25").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let newer = Web::introduced(&front, "a", "2025-11-25").await;
    // One's own sessions make room for one's own.
    Web::introduced(&front, "a", "2025-11-25").await;
    assert_eq!(oldest.post(&ping()).await.status, StatusCode::NOT_FOUND);
    assert_eq!(newer.post(&ping()).await.status, StatusCode::OK);
    Web::introduced(&front, "b", "2025-11-25").await;
    Web::introduced(&front, "c", "2025-11-25").await;
    assert_eq!(front.sessions(), 4);
    // Others' only if they are idle.
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}});
    let refused = Web::new(&front, "d").post(&hello).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers.contains_key("retry-after"));
    tokio::time::sleep(Duration::from_secs(40)).await;
    Web::introduced(&front, "d", "2025-11-25").await;
    assert_eq!(front.sessions(), 4);
}

#[tokio::test]
async fn sessions_survive_the_process() {
    let (front, mut fake, ended) = scripted(FrontOptions::default()).await;
    let web = Web::introduced(&front, "me", "2025-11-25").await;
    let mut events = web.get(None).await.events();
    let (lost, ()) = tokio::join!(async { web.call(json!(1), "t", json!({})).await.answer().await }, async {
        fake.expect("tools/call").await;
        drop(fake);
    });
    assert_eq!(lost["error"]["code"], -32000);
    let (io, mut fake) = pipes(1 << 16);
    let _ended = ended.await.unwrap().restart(io);
    fake.be_legacy().await;
    let (found, ()) =
        tokio::join!(async { web.call(json!(1), "t", json!({})).await.answer().await }, async {
            let request = fake.expect("tools/call").await;
            fake.answer(&request, json!({"again": true})).await;
        });
    assert_eq!(found["result"]["again"], true);
    // What the new process offers may be different.
    assert_eq!(events.data().await["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_bridge_that_is_over_ends_its_sessions() {
    let (front, _fake, ended) = scripted(FrontOptions::default()).await;
    let web = Web::introduced(&front, "me", "2025-11-25").await;
    drop(_fake);
    drop(ended.await.unwrap());
    assert_eq!(web.post(&ping()).await.status, StatusCode::NOT_FOUND, "so that its client starts anew");
}

#[tokio::test]
async fn a_session_that_is_deleted_takes_its_calls_along() {
    let options = FrontOptions { json_grace: Duration::from_millis(20), ..FrontOptions::default() };
    let (front, mut fake, _ended) = scripted(options).await;
    let web = Web::introduced(&front, "me", "2025-06-18").await;
    let mut call = web.call(json!(1), "t", json!({})).await.events();
    let request = fake.expect("tools/call").await;
    let mut events = web.get(None).await.events();
    assert_eq!(web.send("DELETE", &[], "").await.status, StatusCode::NO_CONTENT);
    assert!(call.next().await.is_none() && events.next().await.is_none());
    assert_eq!(fake.expect("notifications/cancelled").await["params"]["requestId"], request["id"]);
    for method in ["POST", "DELETE"] {
        let headers = [("accept", super::web::BOTH), ("content-type", "application/json")];
        assert_eq!(web.send(method, &headers, ping().to_string()).await.status, StatusCode::NOT_FOUND);
    }
    assert_eq!(front.sessions(), 0);
}

#[tokio::test]
async fn a_cancelled_call_has_no_answer() {
    let options = FrontOptions { json_grace: Duration::from_millis(20), ..FrontOptions::default() };
    let (front, mut fake, _ended) = scripted(options).await;
    let web = Web::introduced(&front, "me", "2025-06-18").await;
    let mut call = web.call(json!("x"), "t", json!({})).await.events();
    let request = fake.expect("tools/call").await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}});
    assert_eq!(web.post(&cancel).await.status, StatusCode::ACCEPTED);
    assert_eq!(fake.expect("notifications/cancelled").await["params"]["requestId"], request["id"]);
    assert!(call.next().await.is_none());
}

#[tokio::test]
async fn a_front_that_is_closed_ends_its_streams() {
    let (front, _fake, _ended) = scripted(FrontOptions::default()).await;
    let web = Web::introduced(&front, "me", "2025-11-25").await;
    let mut events = web.get(None).await.events();
    let mut listening =
        web.modern(json!(1), "subscriptions/listen", json!({"notifications": {}})).await.events();
    listening.data().await;
    front.close();
    assert!(events.next().await.is_none() && listening.next().await.is_none());
    assert_eq!(web.post(&ping()).await.status, StatusCode::SERVICE_UNAVAILABLE);
}
