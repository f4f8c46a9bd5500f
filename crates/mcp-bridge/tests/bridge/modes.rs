use emergent_mcp_bridge::{ConnectError, Declaration, Incoming, Mode, Options};
use serde_json::json;

use crate::support::{call, legacy, modern, next, next_notice, nothing, pipes, raw, value};

fn dedicated() -> Options {
    let capabilities = raw(r#"{"sampling":{},"roots":{"listChanged":true}}"#);
    let info = raw(r#"{"name":"desk","version":"9"}"#);
    Options { mode: Mode::Dedicated(Declaration { capabilities, info }), ..Options::default() }
}

#[tokio::test]
async fn a_shared_server_is_refused_what_nobody_can_answer() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    for (n, method) in
        ["sampling/createMessage", "elicitation/create", "roots/list", "x/y"].iter().enumerate()
    {
        fake.say(&format!(r#"{{"jsonrpc":"2.0","id":"s{n}","method":"{method}","params":{{}}}}"#)).await;
        let refused = fake.hear().await;
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(format!("s{n}")), &json!(-32601)));
    }
    fake.say(r#"{"jsonrpc":"2.0","id":1.0,"method":"ping"}"#).await;
    assert_eq!(fake.hear_text().await, r#"{"jsonrpc":"2.0","id":1.0,"result":{}}"#);
    nothing(&client).await;
    assert_eq!(handle.stats().refused_requests, 4);
}

#[tokio::test]
async fn a_dedicated_server_asks_its_client() {
    let (io, mut fake) = pipes(1 << 16);
    let (handle, ended) = emergent_mcp_bridge::Bridge::start(dedicated(), io);
    let probe = fake.expect("server/discover").await;
    fake.say(&format!(r#"{{"id":{},"error":{{"code":-32601,"message":""}}}}"#, probe["id"])).await;
    let hello = fake.initialize().await;
    assert_eq!(hello["params"]["capabilities"]["roots"]["listChanged"], true);
    assert_eq!(hello["params"]["clientInfo"]["name"], "desk");
    let client = handle.connect().unwrap();
    assert_eq!(handle.connect().unwrap_err(), ConnectError::Taken);

    fake.say(r#"{"jsonrpc":"2.0","id":"mine","method":"sampling/createMessage","params":{"x":1.0,"x":2}}"#)
        .await;
    let Incoming::Request { message, .. } = next(&client).await else { panic!() };
    assert!(message.as_str().ends_with(r#""method":"sampling/createMessage","params":{"x":1.0,"x":2}}"#));
    let id = value(&message)["id"].to_string();
    let answer = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"y":1.0, "y":2}}}}"#);
    client.respond(raw(answer(&id))).await.unwrap();
    assert_eq!(fake.hear_text().await, answer("\"mine\""));
    // Twice, and what nobody asked.
    client.respond(raw(answer(&id))).await.unwrap();
    client.respond(raw(answer("77"))).await.unwrap();
    fake.silence(30).await;

    // The server takes a question back, under the id that the client knows.
    fake.say(r#"{"jsonrpc":"2.0","id":5,"method":"roots/list"}"#).await;
    let Incoming::Request { message, .. } = next(&client).await else { panic!() };
    fake.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#).await;
    assert_eq!(next_notice(&client).await["params"]["requestId"], value(&message)["id"]);
    fake.say(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"log"}}"#).await;
    assert_eq!(next_notice(&client).await["params"]["data"], "log");
    client.notify(raw(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#)).await.unwrap();
    fake.expect("notifications/roots/list_changed").await;

    // An answer for a process that is gone does not reach the next one.
    fake.say(r#"{"jsonrpc":"2.0","id":6,"method":"roots/list"}"#).await;
    let Incoming::Request { message, .. } = next(&client).await else { panic!() };
    let id = value(&message)["id"].to_string();
    drop(fake);
    let (io, mut fake) = pipes(1 << 16);
    let _ended = ended.await.unwrap().restart(io);
    fake.be_legacy().await;
    assert_eq!(next_notice(&client).await["params"]["requestId"].to_string(), id);
    client.respond(raw(answer(&id))).await.unwrap();
    fake.silence(30).await;
    // A client that leaves does not leave the server waiting.
    fake.say(r#"{"jsonrpc":"2.0","id":"open","method":"roots/list"}"#).await;
    next(&client).await;
    drop(client);
    assert_eq!(fake.hear().await["id"], "open");
    handle.connect().unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_listen_is_answered_for() {
    let (handle, mut fake, _ended) = legacy(Options { max_mailbox: 2, ..dedicated() }).await;
    let client = handle.connect().unwrap();
    for id in 0..3 {
        fake.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list"}}"#)).await;
    }
    let refused = fake.hear().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(2), &json!(-32603)));
    assert!(client.request(call("1", "ping", "{}")).await.is_ok());
}

#[tokio::test]
async fn a_server_of_the_newer_era_is_not_answered() {
    let (handle, mut fake, _ended) = modern(Options::default()).await;
    fake.say(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await;
    fake.silence(30).await;
    assert_eq!(handle.stats().refused_requests, 1);
}
