use emergent_mcp_bridge::{Client, Incoming, Options};
use serde_json::{Value, json};

use crate::support::{Fake, call, introduce, legacy, modern_call, next, next_notice, nothing, raw, value};

async fn subscribe(client: &Client, uri: &str) -> Value {
    value(&client.request(call("1", "resources/subscribe", &json!({"uri": uri}).to_string())).await.unwrap())
}

async fn say(fake: &mut Fake, method: &str, params: Value) {
    fake.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()).await;
}

#[tokio::test]
async fn progress_goes_to_its_call_alone() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let (one, two) = (handle.connect().unwrap(), handle.connect().unwrap());
    let asking =
        |token: &str| call("1", "tools/call", &format!(r#"{{"_meta":{{"progressToken":{token}}}}}"#));
    let first = one.begin(asking("\"t\""), None).await.unwrap();
    let first_heard = fake.hear().await;
    let second = two.begin(asking("\"t\""), None).await.unwrap();
    let second_heard = fake.hear().await;
    let tokens = [&first_heard, &second_heard].map(|heard| heard["params"]["_meta"]["progressToken"].clone());
    assert_ne!(tokens[0], tokens[1]);
    for token in [tokens[1].clone(), json!("t"), json!(12345), Value::Null] {
        say(&mut fake, "notifications/progress", json!({"progressToken": token, "progress": 2})).await;
    }
    fake.answer(&first_heard, json!({})).await;
    first.answer().await.unwrap();
    // After the answer there is nobody to hear of it.
    say(&mut fake, "notifications/progress", json!({"progressToken": tokens[0], "progress": 3})).await;
    match next(&two).await {
        Incoming::Notification { about, message } => {
            assert_eq!(about, Some(second.number()));
            assert_eq!(value(&message)["params"], json!({"progressToken": "t", "progress": 2}));
        }
        other => panic!("{other:?}"),
    }
    fake.answer(&second_heard, json!({})).await;
    second.answer().await.unwrap();
    nothing(&one).await;
    nothing(&two).await;
    assert_eq!(handle.stats().unrouted, 4);
}

#[tokio::test]
async fn changes_of_lists_go_to_all_who_want_them() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let (old, new, idle) = (handle.connect().unwrap(), handle.connect().unwrap(), handle.connect().unwrap());
    introduce(&old, "2025-06-18").await;
    let members = r#""notifications":{"promptsListChanged":true,"unknown":1}"#;
    let listening = new.begin(modern_call("1.50", "subscriptions/listen", members), None).await.unwrap();
    let ack = next_notice(&new).await;
    assert_eq!(ack["params"]["notifications"], json!({"promptsListChanged": true}));
    assert_eq!(ack["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].to_string(), "1.5");
    let text = r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{"x":1.0}}"#;
    fake.say(text).await;
    fake.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#).await;
    match next(&old).await {
        Incoming::Notification { about: None, message } => assert_eq!(message.as_str(), text),
        other => panic!("{other:?}"),
    }
    assert_eq!(next_notice(&old).await["method"], "notifications/tools/list_changed");
    match next(&new).await {
        Incoming::Notification { about, message } => {
            assert_eq!(about, Some(listening.number()));
            let tagged = r#""params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1.50},"x":1.0}"#;
            assert!(message.as_str().contains(tagged), "{}", message.as_str());
        }
        other => panic!("{other:?}"),
    }
    nothing(&new).await;
    nothing(&idle).await;
}

#[tokio::test]
async fn updates_go_to_subscribers_who_are_counted() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let (one, two, three) = (handle.connect().unwrap(), handle.connect().unwrap(), handle.connect().unwrap());
    let (answer, ()) = tokio::join!(subscribe(&one, "x://1"), async {
        let request = fake.expect("resources/subscribe").await;
        fake.answer(&request, json!({})).await;
    });
    assert_eq!(answer["result"], json!({}));
    assert_eq!(subscribe(&two, "x://1").await["result"], json!({}));
    // A subscription that the server refuses is none.
    let (answer, ()) = tokio::join!(subscribe(&three, "x://2"), async {
        let id = fake.expect("resources/subscribe").await["id"].to_string();
        fake.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32002,"message":"no"}}}}"#)).await;
    });
    assert_eq!(answer["error"]["code"], -32002);
    for uri in ["x://1", "x://2", "x://3"] {
        say(&mut fake, "notifications/resources/updated", json!({"uri": uri})).await;
    }
    for client in [&one, &two] {
        assert_eq!(next_notice(client).await["params"]["uri"], "x://1");
        nothing(client).await;
    }
    nothing(&three).await;

    let answer = one.request(call("2", "resources/unsubscribe", r#"{"uri":"x://1"}"#)).await.unwrap();
    assert_eq!(value(&answer)["result"], json!({}));
    fake.silence(30).await;
    say(&mut fake, "notifications/resources/updated", json!({"uri": "x://1"})).await;
    assert_eq!(next_notice(&two).await["params"]["uri"], "x://1");
    nothing(&one).await;
    // The last one leaves without a word.
    drop(two);
    assert_eq!(fake.expect("resources/unsubscribe").await["params"]["uri"], "x://1");
}

/// Whatever comes first, the request or the news that its client left.
#[tokio::test]
async fn a_client_that_subscribes_and_leaves_leaves_nothing_behind() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let mut held = 0;
    for n in 0..100 {
        let client = handle.connect().unwrap();
        let request = call("1", "resources/subscribe", &json!({"uri": n.to_string()}).to_string());
        drop(client.begin(request, None).await.unwrap());
        drop(client);
    }
    let mut heard = Vec::new();
    let last = handle.connect().unwrap();
    let end = last.begin(call("1", "tools/list", "{}"), None).await.unwrap();
    loop {
        let request = fake.hear().await;
        fake.answer(&request, json!({})).await;
        match request["method"].as_str().unwrap() {
            "resources/subscribe" => held += 1,
            "resources/unsubscribe" => held -= 1,
            _ => heard.push(request),
        }
        if held == 0 && !heard.is_empty() {
            break;
        }
    }
    end.answer().await.unwrap();
    fake.silence(30).await;
}

#[tokio::test]
async fn the_log_of_a_shared_server_is_no_clients() {
    let (log, mut logged) = tokio::sync::mpsc::channel(1);
    let (handle, mut fake, _ended) = legacy(Options { log: Some(log), ..Options::default() }).await;
    let (one, two) = (handle.connect().unwrap(), handle.connect().unwrap());
    introduce(&one, "2025-11-25").await;
    for text in ["secret", "does not fit"] {
        say(&mut fake, "notifications/message", json!({"level": "info", "data": text})).await;
    }
    say(&mut fake, "notifications/whatever", json!({})).await;
    nothing(&one).await;
    assert_eq!(value(&logged.recv().await.unwrap())["params"]["data"], "secret");
    assert_eq!((handle.stats().missed, handle.stats().unrouted), (1, 1));

    // The most verbose level anybody wants is the server's.
    let level = |level: &str| call("1", "logging/setLevel", &json!({"level": level}).to_string());
    for (client, wanted, heard) in
        [(&one, "error", Some("error")), (&two, "info", Some("info")), (&one, "alert", None)]
    {
        let (answer, ()) = tokio::join!(client.request(level(wanted)), async {
            if let Some(heard) = heard {
                let request = fake.expect("logging/setLevel").await;
                assert_eq!(request["params"]["level"], heard);
                fake.answer(&request, json!({})).await;
            }
        });
        assert_eq!(value(&answer.unwrap())["result"], json!({}));
    }
    drop(two);
    assert_eq!(fake.expect("logging/setLevel").await["params"]["level"], "alert");
    assert_eq!(value(&one.request(level("loud")).await.unwrap())["error"]["code"], -32602);
}

#[tokio::test]
async fn notifications_of_clients_reach_the_server_where_they_mean_something() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    for method in ["initialized", "roots/list_changed", "progress", "custom"] {
        client
            .notify(raw(format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}"}}"#)))
            .await
            .unwrap();
    }
    fake.expect("notifications/custom").await;
    // What wants an answer is no notification, whether one is asked for or not.
    for method in ["tools/call", "tools/list", "ping", "Notifications/custom"] {
        let params = r#"{"name":"t"}"#;
        let silent = raw(format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#));
        client.notify(silent).await.unwrap();
    }
    fake.silence(30).await;
}
