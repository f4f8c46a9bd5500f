use std::time::Duration;

use emergent_mcp_bridge::{Bridge, CallError, EndReason, Era, EraChoice, HandshakeError, Options};
use serde_json::json;

use crate::support::{
    CAPABILITIES, call, introduce, legacy, modern, modern_call, nothing, pipes, plain, raw, value,
};

#[tokio::test]
async fn a_server_of_the_older_era_is_found_and_initialized_once() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    assert_eq!(handle.ready(Duration::ZERO).await.unwrap().era, Era::Legacy);
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2030-01-01"] {
        let client = handle.connect().unwrap();
        let answer = introduce(&client, version).await;
        let expect = if version == "2030-01-01" { "2025-11-25" } else { version };
        assert_eq!(answer["result"]["protocolVersion"], expect);
        assert_eq!(
            answer["result"]["capabilities"],
            serde_json::from_str::<serde_json::Value>(CAPABILITIES).unwrap()
        );
        assert_eq!(answer["id"], 0);
    }
    fake.silence(30).await;
}

#[tokio::test]
async fn a_server_of_the_newer_era_answers_everybody_too() {
    let (handle, mut fake, _ended) = modern(Options::default()).await;
    let client = handle.connect().unwrap();
    let answer = introduce(&client, "2025-06-18").await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(answer["result"]["serverInfo"]["name"], "fake");
    let discovered = value(&client.request(modern_call("\"d\"", "server/discover", "")).await.unwrap());
    assert_eq!(
        (&discovered["id"], &discovered["result"]["supportedVersions"]),
        (&json!("d"), &json!(["2026-07-28"]))
    );
    fake.silence(30).await;
}

#[tokio::test]
async fn discovery_is_made_up_for_a_legacy_server() {
    let (handle, _fake, _ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    let result =
        value(&client.request(modern_call("1", "server/discover", "")).await.unwrap())["result"].take();
    assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(
        (&result["resultType"], &result["ttlMs"], &result["cacheScope"]),
        (&json!("complete"), &json!(0), &json!("private"))
    );
    assert_eq!(result["serverInfo"]["name"], "fake");
}

#[tokio::test]
async fn an_unknown_modern_version_is_refused_with_what_is_spoken() {
    let (handle, _fake, _ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    let params = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2031-01-01"}}"#;
    let request = call("7", "tools/list", params);
    let error = client.request(request.clone()).await.unwrap_err();
    let answer = value(&error.answer_to(&request).unwrap());
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32022)));
    assert_eq!(answer["error"]["data"]["supported"], json!(["2026-07-28"]));
}

#[tokio::test(start_paused = true)]
async fn silence_means_the_older_era() {
    let (io, mut fake) = pipes(4096);
    let (handle, _ended) = Bridge::start(Options::default(), io);
    fake.expect("server/discover").await;
    fake.initialize().await;
    assert_eq!(handle.ready(Duration::from_secs(1)).await.unwrap().era, Era::Legacy);
}

#[tokio::test(start_paused = true)]
async fn a_late_discovery_still_decides() {
    let (io, mut fake) = pipes(4096);
    let (handle, _ended) = Bridge::start(Options::default(), io);
    let probe = fake.expect("server/discover").await;
    let hello = fake.expect("initialize").await;
    // What python servers do that took the first message for the era.
    fake.answer(&probe, json!({"supportedVersions": ["2026-07-28"], "capabilities": {}})).await;
    fake.say(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32022,"message":"modern"}}}}"#,
        hello["id"]
    ))
    .await;
    assert_eq!(handle.ready(Duration::from_secs(1)).await.unwrap().era, Era::Modern);
    fake.silence(30).await;
}

#[tokio::test(start_paused = true)]
async fn two_refusals_are_the_end_in_either_order() {
    for probe_first in [true, false] {
        let (io, mut fake) = pipes(4096);
        let (_handle, ended) = Bridge::start(Options::default(), io);
        let probe = fake.expect("server/discover").await;
        let hello = fake.expect("initialize").await;
        let order = if probe_first { [&probe, &hello] } else { [&hello, &probe] };
        for request in order {
            fake.say(&format!(r#"{{"id":{},"error":{{"code":1,"message":"no"}}}}"#, request["id"])).await;
        }
        let reason = ended.await.unwrap().reason().clone();
        assert!(matches!(reason, EndReason::Handshake(HandshakeError::Refused(_))), "{reason}");
    }
}

#[tokio::test]
async fn any_error_but_a_modern_one_means_the_older_era() {
    for (error, falls_back) in [
        (r#"{"code":-32600,"message":"?"}"#, true),
        (r#"{"code":-32022,"message":"?","data":{"supported":["2025-11-25"]}}"#, true),
        (r#"{"code":-32022,"message":"?","data":{"supported":["2031-01-01"]}}"#, false),
        (r#"{"code":-32021,"message":"?"}"#, false),
    ] {
        let (io, mut fake) = pipes(4096);
        let (_handle, ended) = Bridge::start(Options::default(), io);
        let probe = fake.expect("server/discover").await;
        fake.say(&format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, probe["id"])).await;
        if falls_back {
            fake.initialize().await;
        } else {
            assert!(matches!(ended.await.unwrap().reason(), EndReason::Handshake(_)), "{error}");
        }
    }
}

#[tokio::test]
async fn calls_wait_for_the_handshake_and_keep_their_order() {
    let (io, mut fake) = pipes(1 << 16);
    let (handle, _ended) = Bridge::start(plain(), io);
    let client = handle.connect().unwrap();
    let asked = tokio::spawn(async move {
        let hello = introduce(&client, "2025-11-25").await;
        let answer = client.request(call("1", "tools/list", "{}")).await.unwrap();
        (hello, value(&answer))
    });
    let hello = fake.expect("initialize").await;
    assert_eq!(hello["params"]["capabilities"], json!({}), "a shared server is promised nothing");
    fake.say("Listening on stdio...").await;
    fake.say(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#).await;
    assert_eq!(fake.hear().await, json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    fake.silence(30).await;
    fake.answer(&hello, json!({"protocolVersion": "2024-11-05", "capabilities": {}})).await;
    fake.expect("notifications/initialized").await;
    let request = fake.expect("tools/list").await;
    fake.answer(&request, json!({"tools": []})).await;
    let (hello, answer) = asked.await.unwrap();
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}));
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_fails_fails_its_calls() {
    let (io, mut fake) = pipes(4096);
    let options = Options { restart_grace: Duration::ZERO, ..plain() };
    let (handle, ended) = Bridge::start(options, io);
    let client = handle.connect().unwrap();
    let asked = tokio::spawn(async move { client.request(call("1", "tools/list", "{}")).await });
    let hello = fake.expect("initialize").await;
    fake.say(&format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":1,"message":"no key"}}}}"#, hello["id"]))
        .await;
    let error = asked.await.unwrap().unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("no key"), "{error}");
    drop(ended);

    let (io, _fake) = pipes(4096);
    let (_handle, ended) = Bridge::start(Options { era: EraChoice::Probe, ..Options::default() }, io);
    let timed_out = EndReason::Handshake(HandshakeError::TimedOut(Duration::from_secs(60)));
    assert_eq!(ended.await.unwrap().reason(), &timed_out);
}

#[tokio::test]
async fn pings_and_batches_are_answered_here() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    introduce(&client, "2025-06-18").await;
    let pong = client.request(call("\"p\"", "ping", "{}")).await.unwrap();
    assert_eq!(value(&pong), json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
    let batch =
        raw(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},7]"#);
    assert_eq!(client.batch(batch.clone()).await.unwrap_err().code(), -32600);
    assert_eq!(client.request(batch.clone()).await.unwrap_err().code(), -32600);

    let old = handle.connect().unwrap();
    introduce(&old, "2025-03-26").await;
    let answers = value(&old.batch(batch).await.unwrap().unwrap());
    assert_eq!(answers[0], json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    assert_eq!(answers[1]["error"]["code"], -32700);
    fake.expect("notifications/x").await;
    fake.silence(30).await;
    nothing(&old).await;
}

#[tokio::test]
async fn what_is_no_message_is_refused_before_the_server_sees_it() {
    let (handle, mut fake, _ended) = legacy(Options::default()).await;
    let client = handle.connect().unwrap();
    for bad in [
        r#"{"id":1,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]}"#,
        r#"{"jsonrpc":"2.0","method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":1,"progressToken":2}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{},"_meta":{"progressToken":2}}}"#,
    ] {
        let error = client.request(raw(bad)).await.unwrap_err();
        assert!(matches!(error, CallError::Malformed(_)), "{bad}");
        assert_eq!(error.code(), -32600, "{bad}");
    }
    fake.silence(30).await;
}
