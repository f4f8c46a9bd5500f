use std::time::Duration;

use emergent_mcp_bridge::front::FrontOptions;
use serde_json::json;

use super::web::{Web, scripted};

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

#[tokio::test]
async fn changes_go_to_the_one_stream_of_each_session() {
    let (front, mut fake, _ended) = scripted(FrontOptions::default()).await;
    let (one, two) = (
        Web::introduced(&front, "me", "2025-11-25").await,
        Web::introduced(&front, "you", "2025-06-18").await,
    );
    let mut first = one.get(None).await.events();
    let mut second = one.get(None).await.events();
    assert!(first.next().await.is_none(), "the second one takes over");
    fake.say(CHANGED).await;
    let seen = second.next().await.unwrap();
    assert_eq!(seen.data["method"], "notifications/tools/list_changed");
    second.silence(30).await;
    // Who opens its stream later has not missed it.
    let mut late = two.get(None).await.events();
    assert_eq!(late.data().await["method"], "notifications/tools/list_changed");
    // Who comes back hears what it has not heard, once.
    drop(second);
    fake.say(r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#).await;
    tokio::time::sleep(Duration::from_millis(30)).await;
    let mut back = one.get(seen.id.as_deref()).await.events();
    assert_eq!(back.data().await["method"], "notifications/prompts/list_changed");
    back.silence(30).await;
}

#[tokio::test]
async fn updates_go_to_subscribers() {
    let (front, mut fake, _ended) = scripted(FrontOptions::default()).await;
    let (one, two) = (
        Web::introduced(&front, "me", "2025-11-25").await,
        Web::introduced(&front, "me", "2025-11-25").await,
    );
    let subscribe =
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "x://1"}});
    // Twice at once; the second one fails and takes nothing from the first.
    let (first, second, ()) = tokio::join!(one.post(&subscribe), one.post(&subscribe), async {
        let (granted, refused) =
            (fake.expect("resources/subscribe").await, fake.expect("resources/subscribe").await);
        fake.answer(&granted, json!({})).await;
        let error = json!({"code": -32002, "message": "no"});
        fake.say(&json!({"jsonrpc": "2.0", "id": refused["id"], "error": error}).to_string()).await;
    });
    let answers = [first.answer().await, second.answer().await];
    assert_eq!(answers.iter().filter(|answer| answer.get("result").is_some()).count(), 1);
    let (mut here, mut there) = (one.get(None).await.events(), two.get(None).await.events());
    fake.say(
        &json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "x://1"}})
            .to_string(),
    )
    .await;
    assert_eq!(here.data().await["params"]["uri"], "x://1");
    there.silence(30).await;
}

/// A client that never reads costs a bounded amount, and nobody waits for it.
#[tokio::test]
async fn a_client_that_does_not_read_holds_nobody_up() {
    let (front, mut fake, _ended) =
        scripted(FrontOptions { max_stream_events: 8, ..FrontOptions::default() }).await;
    let idle = Web::introduced(&front, "me", "2025-11-25").await;
    let _unread = idle.get(None).await;
    let busy = Web::introduced(&front, "me", "2025-11-25").await;
    for _ in 0..2000 {
        fake.say(CHANGED).await;
    }
    let (answer, ()) =
        tokio::join!(async { busy.call(json!(1), "t", json!({})).await.answer().await }, async {
            let request = fake.expect("tools/call").await;
            fake.answer(&request, json!({"quick": true})).await;
        });
    assert_eq!(answer["result"]["quick"], true);
}
