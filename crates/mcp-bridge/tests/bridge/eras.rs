use std::sync::Arc;

use emergent_mcp_bridge::{CallError, Incoming, Options};
use serde_json::{Value, json};

use crate::support::{call, introduce, legacy, modern, modern_call, next, next_notice, nothing, raw, value};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const TAG: &str = "io.modelcontextprotocol/subscriptionId";

#[tokio::test]
async fn a_modern_client_on_a_legacy_server() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    let (got, ()) = tokio::join!(client.request(modern_call("1", "tools/list", "")), async {
        let request = fake.expect("tools/list").await;
        fake.answer(&request, json!({"tools": []})).await;
    });
    assert_eq!(
        value(&got.unwrap())["result"],
        json!({"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})
    );
    for method in ["ping", "initialize", "logging/setLevel", "resources/subscribe"] {
        let refused = value(&client.request(modern_call("2", method, "")).await.unwrap());
        assert_eq!(refused["error"]["code"], -32601, "{method}");
    }
    fake.silence(30).await;
}

#[tokio::test]
async fn a_legacy_client_on_a_modern_server() {
    let (handle, mut fake, _ended) = modern(Options::default()).await;
    let client = handle.connect().unwrap();
    introduce(&client, "2025-06-18").await;
    let level = client.request(call("1", "logging/setLevel", r#"{"level":"info"}"#)).await.unwrap();
    assert_eq!(value(&level)["result"], json!({}));
    let params = r#"{"name":"t","_meta":{"progressToken":"p"}}"#;
    let (got, ()) = tokio::join!(client.request(call("2", "tools/call", params)), async {
        let request = fake.expect("tools/call").await;
        let meta = &request["params"]["_meta"];
        assert_eq!(meta[VERSION], "2026-07-28");
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({"sampling": {}}));
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "t");
        assert_eq!(meta["io.modelcontextprotocol/logLevel"], "info");
        assert!(meta["progressToken"].is_u64());
        fake.answer(&request, json!({"resultType": "complete"})).await;
    });
    got.unwrap();
    client.notify(raw(r#"{"jsonrpc":"2.0","method":"notifications/custom"}"#)).await.unwrap();
    fake.silence(30).await;
    let (pong, ()) = tokio::join!(handle.ping(std::time::Duration::from_secs(5)), async {
        let request = fake.expect("server/discover").await;
        fake.answer(&request, json!({})).await;
    });
    pong.unwrap();
}

#[tokio::test]
async fn one_listen_request_serves_everybody() {
    let (handle, mut fake, ended) = modern(Options::default()).await;
    let (old, new) = (handle.connect().unwrap(), handle.connect().unwrap());
    introduce(&old, "2025-11-25").await;
    let subscribed = old.request(call("1", "resources/subscribe", r#"{"uri":"x://1"}"#)).await.unwrap();
    assert_eq!(value(&subscribed)["result"], json!({}));
    let first = fake.acknowledge_listen().await;
    assert_eq!(first["params"]["notifications"]["resourceSubscriptions"], json!(["x://1"]));
    assert_eq!(fake.expect("notifications/cancelled").await["params"]["reason"], "replaced");
    let members = r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["x://2"]}"#;
    let listening = new.begin(modern_call("\"L\"", "subscriptions/listen", members), None).await.unwrap();
    assert_eq!(next_notice(&new).await["params"]["_meta"][TAG], "L");
    let second = fake.acknowledge_listen().await;
    assert_eq!(second["params"]["notifications"]["resourceSubscriptions"], json!(["x://1", "x://2"]));
    assert_eq!(fake.expect("notifications/cancelled").await["params"]["requestId"], first["id"]);

    let mut say = async |tag: &Value, method: &str, uri: &str| {
        fake.say(&json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": {"uri": uri, "_meta": {TAG: tag}}}).to_string()).await;
    };
    say(&second["id"], "resources/updated", "x://1").await;
    say(&second["id"], "resources/updated", "x://2").await;
    say(&first["id"], "resources/updated", "x://1").await;
    say(&second["id"], "tools/list_changed", "").await;
    assert_eq!(next_notice(&old).await["params"]["uri"], "x://1");
    assert_eq!(next_notice(&old).await["method"], "notifications/tools/list_changed");
    nothing(&old).await;
    for method in ["notifications/resources/updated", "notifications/tools/list_changed"] {
        let heard = next_notice(&new).await;
        assert_eq!((&heard["method"], &heard["params"]["_meta"][TAG]), (&json!(method), &json!("L")));
    }
    nothing(&new).await;
    assert_eq!(handle.stats().unrouted, 1);

    drop(listening);
    let third = fake.acknowledge_listen().await;
    assert_eq!(third["params"]["notifications"]["resourceSubscriptions"], json!(["x://1"]));
    // The next process is told the same.
    drop(fake);
    let (io, mut fake) = crate::support::pipes(1 << 16);
    let _ended = ended.await.unwrap().restart(io);
    let again = fake.be_modern().await;
    assert_eq!(again["params"]["notifications"]["resourceSubscriptions"], json!(["x://1"]));
}

#[tokio::test]
async fn input_that_a_modern_server_needs_is_asked_of_a_legacy_client() {
    let (handle, mut fake, _ended) = modern(Options::default()).await;
    let client = Arc::new(handle.connect().unwrap());
    introduce(&client, "2025-11-25").await;
    let begun = client.begin(call("\"c\"", "tools/call", r#"{"name":"t"}"#), None).await.unwrap();
    let number = begun.number();
    let asked = tokio::spawn(begun.answer());
    let request = fake.expect("tools/call").await;
    fake.answer(
        &request,
        json!({"resultType": "input_required", "requestState": "opaque",
               "inputRequests": {"name": {"method": "elicitation/create", "params": {"message": "?"}}}}),
    )
    .await;
    let Incoming::Request { about, message } = next(&client).await else { panic!() };
    assert_eq!(about, Some(number));
    let question = value(&message);
    assert_eq!(
        (&question["method"], &question["params"]["message"]),
        (&json!("elicitation/create"), &json!("?"))
    );
    client
        .respond(raw(format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"action":"accept","n":1.0}}}}"#,
            question["id"]
        )))
        .await
        .unwrap();
    let again = fake.hear_text().await;
    assert!(
        again.contains(r#""inputResponses":{"name":{"action":"accept","n":1.0}},"requestState":"opaque","#),
        "{again}"
    );
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_ne!(again["id"], request["id"]);
    assert_eq!(again["params"]["name"], "t");
    fake.answer(&again, json!({"resultType": "complete", "ok": true})).await;
    let answer = value(&asked.await.unwrap().unwrap());
    assert_eq!((&answer["id"], &answer["result"]["ok"]), (&json!("c"), &json!(true)));
}

#[tokio::test]
async fn a_question_is_taken_back_with_its_call() {
    let (handle, mut fake, _ended) = modern(Options::default()).await;
    let client = handle.connect().unwrap();
    introduce(&client, "2025-11-25").await;
    // More often than questions may be open at once.
    for _ in 0..70 {
        let asked = tokio::spawn(client.begin(call("1", "tools/call", "{}"), None).await.unwrap().answer());
        let request = fake.expect("tools/call").await;
        let needs = json!({"resultType": "input_required", "inputRequests": {"k": {"method": "roots/list"}}});
        fake.answer(&request, needs).await;
        let Incoming::Request { message, .. } = next(&client).await else { panic!() };
        asked.abort();
        assert!(asked.await.is_err());
        assert_eq!(next_notice(&client).await["params"]["requestId"], value(&message)["id"]);
    }
}

#[tokio::test]
async fn a_server_does_not_ask_for_ever_and_a_modern_client_is_asked_directly() {
    let (handle, mut fake, _ended) = modern(Options::default()).await;
    let client = handle.connect().unwrap();
    introduce(&client, "2025-11-25").await;
    let needs = json!({"resultType": "input_required", "inputRequests": {}});
    let (got, ()) = tokio::join!(client.request(call("1", "tools/call", "{}")), async {
        for _ in 0..11 {
            let request = fake.expect("tools/call").await;
            fake.answer(&request, needs.clone()).await;
        }
    });
    assert_eq!(got.unwrap_err(), CallError::TooManyRounds(10));
    let (got, ()) = tokio::join!(client.request(modern_call("1", "tools/call", "")), async {
        let request = fake.expect("tools/call").await;
        fake.answer(&request, needs.clone()).await;
    });
    assert_eq!(value(&got.unwrap())["result"], needs);
}
