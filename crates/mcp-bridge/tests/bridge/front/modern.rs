use std::time::Duration;

use emergent_mcp_bridge::front::FrontOptions;
use http::StatusCode;
use serde_json::{Value, json};

use super::web::{BOTH, MODERN, TAG, Web, echoing, modern_body, scripted, scripted_modern};

#[tokio::test]
async fn headers_say_what_the_body_says() {
    let (front, _ended) = echoing(FrontOptions::default());
    let web = Web::new(&front, "me");
    let call = modern_body(json!("i"), "tools/call", json!({"name": "caf\u{e9}", "arguments": {}}));
    let fits =
        [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "=?base64?Y2Fmw6k=?=")];
    let check = async |headers: &[(&str, &str)], body: &Value, status: u16, code: Option<i64>| {
        let mut all = vec![("accept", BOTH), ("content-type", "application/json")];
        all.extend_from_slice(headers);
        let got = web.send("POST", &all, body.to_string()).await;
        assert_eq!(got.status.as_u16(), status, "{headers:?} {body}");
        let answer = got.answer().await;
        assert_eq!(answer["id"], body["id"], "{answer}");
        assert_eq!(answer["error"]["code"].as_i64(), code, "{headers:?} {answer}");
        answer
    };
    let without = |name: &str| -> Vec<(&str, &str)> {
        fits.iter().filter(|(header, _)| *header != name).copied().collect()
    };
    let with = |name: &'static str, value: &'static str| {
        let mut headers = without(name);
        headers.push((name, value));
        headers
    };
    check(&fits, &call, 200, None).await;
    check(&with("mcp-method", " tools/call "), &call, 200, None).await;
    for missing in ["mcp-protocol-version", "mcp-method", "mcp-name"] {
        check(&without(missing), &call, 400, Some(-32020)).await;
    }
    for (name, value) in [
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-method", "tools/list"),
        ("mcp-method", "Tools/Call"),
        ("mcp-name", "cafe"),
        ("mcp-name", "=?base64?Y2Fmw6k?="),
        ("mcp-name", "=?base64?%%%?="),
    ] {
        check(&with(name, value), &call, 400, Some(-32020)).await;
    }
    let other = {
        let mut body = call.clone();
        body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("v9");
        body
    };
    check(&fits, &other, 400, Some(-32020)).await;
    let unknown = check(&with("mcp-protocol-version", "v9"), &other, 400, Some(-32022)).await;
    assert_eq!(unknown["error"]["data"], json!({"supported": [MODERN], "requested": "v9"}));
    for member in ["protocolVersion", "clientCapabilities"] {
        let mut body = call.clone();
        body["params"]["_meta"].as_object_mut().unwrap().remove(&format!("io.modelcontextprotocol/{member}"));
        check(&fits, &body, 400, Some(-32602)).await;
    }
    let mut bare = call.clone();
    bare["params"].as_object_mut().unwrap().remove("_meta");
    check(&fits, &bare, 400, Some(-32602)).await;
}

#[tokio::test]
async fn methods_of_http_and_of_mcp() {
    let (front, mut fake, _ended) = scripted(FrontOptions::default()).await;
    let web = Web { session: Some("ignored".into()), ..Web::new(&front, "me") };
    for method in ["GET", "DELETE", "PUT"] {
        let got = web.send(method, &[("mcp-protocol-version", MODERN), ("accept", BOTH)], "").await;
        assert_eq!(got.status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(got.headers["allow"], "POST");
    }
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe"] {
        let got = web.modern(json!(1), method, json!({})).await;
        assert_eq!(got.status, StatusCode::NOT_FOUND, "{method}");
        assert_eq!(got.json().await["error"]["code"], -32601);
    }
    let (got, ()) = tokio::join!(web.modern(json!(1), "no/such", json!({})), async {
        let request = fake.expect("no/such").await;
        let error = json!({"code": -32601, "message": "what?"});
        fake.say(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}).to_string()).await;
    });
    assert_eq!(got.status, StatusCode::NOT_FOUND);
    assert!(!got.headers.contains_key("mcp-session-id"));
    let discovered = web.modern(json!(1), "server/discover", json!({})).await.json().await;
    assert_eq!(discovered["result"]["supportedVersions"], json!([MODERN]));
    let headers = [("accept", BOTH), ("content-type", "application/json"), ("mcp-protocol-version", MODERN)];
    let note = json!({"jsonrpc": "2.0", "method": "notifications/whatever"}).to_string();
    assert_eq!(web.send("POST", &headers, note).await.status, StatusCode::ACCEPTED);
    for body in [json!({"jsonrpc": "2.0", "id": 1, "result": {}}), json!([])] {
        assert_eq!(web.send("POST", &headers, body.to_string()).await.status, StatusCode::BAD_REQUEST);
    }
    fake.silence(30).await;
}

#[tokio::test]
async fn closing_the_stream_cancels() {
    let options = FrontOptions { json_grace: Duration::from_millis(20), ..FrontOptions::default() };
    let (front, mut fake, _ended) = scripted_modern(options).await;
    let web = Web::new(&front, "me");
    let read = |id| web.modern(id, "resources/read", json!({"uri": "x://1"}));
    let got = read(json!(1)).await;
    let request = fake.expect("resources/read").await;
    drop(got.events());
    assert_eq!(fake.expect("notifications/cancelled").await["params"]["requestId"], request["id"]);
    // Before there is a stream, too.
    let waits = tokio::time::timeout(Duration::from_millis(5), read(json!(2))).await;
    if waits.is_err() {
        let request = fake.expect("resources/read").await;
        assert_eq!(fake.expect("notifications/cancelled").await["params"]["requestId"], request["id"]);
    }
}

#[tokio::test]
async fn progress_comes_before_the_answer_and_input_is_asked_for() {
    let (front, mut fake, _ended) = scripted_modern(FrontOptions::default()).await;
    let web = Web::new(&front, "me");
    let params = json!({"name": "p", "inputResponses": {"a": {"action": "accept"}}, "requestState": "s"});
    let (got, ()) = tokio::join!(
        async {
            let mut body = modern_body(json!("x"), "prompts/get", params.clone());
            body["params"]["_meta"]["progressToken"] = json!("mine");
            let headers = [
                ("accept", BOTH),
                ("content-type", "application/json"),
                ("mcp-protocol-version", MODERN),
                ("mcp-method", "prompts/get"),
                ("mcp-name", "p"),
            ];
            web.send("POST", &headers, body.to_string()).await
        },
        async {
            let request = fake.expect("prompts/get").await;
            assert_eq!(request["params"]["inputResponses"], params["inputResponses"]);
            assert_eq!(request["params"]["requestState"], "s");
            let token = &request["params"]["_meta"]["progressToken"];
            for progress in 1..=2 {
                let params = json!({"progressToken": token, "progress": progress});
                fake.say(
                    &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                        .to_string(),
                )
                .await;
            }
            let needed = json!({"resultType": "input_required", "requestState": "t", "inputRequests": {"b": {"method": "roots/list"}}});
            fake.answer(&request, needed).await;
        }
    );
    let mut events = got.events();
    for progress in 1..=2 {
        let event = events.next().await.unwrap();
        assert_eq!(event.id, None, "there is nothing to resume");
        assert_eq!(event.data["params"], json!({"progressToken": "mine", "progress": progress}));
    }
    let answer = events.data().await;
    assert_eq!((&answer["id"], &answer["result"]["requestState"]), (&json!("x"), &json!("t")));
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn who_listens_is_told_what_it_asked_for() {
    let (front, mut fake, _ended) = scripted(FrontOptions::default()).await;
    let web = Web::new(&front, "me");
    let filter = json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["x://1"]}});
    let mut events = web.modern(json!("L"), "subscriptions/listen", filter.clone()).await.events();
    let acknowledged = events.data().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], filter["notifications"]);
    let subscribed = fake.expect("resources/subscribe").await;
    fake.answer(&subscribed, json!({})).await;
    for method in ["prompts/list_changed", "tools/list_changed", "resources/updated"] {
        let params = json!({"uri": "x://1"});
        fake.say(
            &json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params})
                .to_string(),
        )
        .await;
    }
    for method in ["notifications/tools/list_changed", "notifications/resources/updated"] {
        let heard = events.data().await;
        assert_eq!((&heard["method"], &heard["params"]["_meta"][TAG]), (&json!(method), &json!("L")));
    }
    events.silence(30).await;
    drop(events);
    assert_eq!(fake.expect("resources/unsubscribe").await["params"]["uri"], "x://1");
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_says_that_it_lives() {
    let (front, _fake, _ended) = scripted(FrontOptions::default()).await;
    let web = Web::new(&front, "me");
    let mut events =
        web.modern(json!(1), "subscriptions/listen", json!({"notifications": {}})).await.events();
    events.data().await;
    events.silence(100_000).await;
    assert_eq!(events.comments, 6, "every fifteen seconds");
}

#[tokio::test]
async fn open_requests_are_bounded_by_who_asks() {
    let options = FrontOptions { max_open: 2, ..FrontOptions::default() };
    let (front, _fake, _ended) = scripted(options).await;
    let listen = async |who: &str| {
        Web::new(&front, who).modern(json!(1), "subscriptions/listen", json!({"notifications": {}})).await
    };
    let (one, two) = (listen("me").await, listen("me").await);
    assert_eq!(listen("me").await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(listen("you").await.status, StatusCode::OK);
    drop((one, two));
    assert_eq!(listen("me").await.status, StatusCode::OK);
}

#[tokio::test]
async fn arguments_that_headers_repeat_are_compared() {
    let (front, mut fake, _ended) = scripted(FrontOptions::default()).await;
    let web = Web::new(&front, "me");
    tokio::spawn(async move {
        loop {
            let request = fake.hear().await;
            let schema = json!({"type": "object", "properties": {"region": {"x-mcp-header": "Region"}}});
            let result = match request["method"].as_str() {
                Some("tools/list") => json!({"tools": [{"name": "t", "inputSchema": schema}]}),
                _ => json!({}),
            };
            fake.answer(&request, result).await;
        }
    });
    let body = modern_body(json!(1), "tools/call", json!({"name": "t", "arguments": {"region": "eu"}}));
    for (header, status) in
        [(Some("eu"), 200), (None, 400), (Some("us"), 400), (Some("=?base64?ZXU=?="), 200)]
    {
        let mut headers = vec![
            ("accept", BOTH),
            ("content-type", "application/json"),
            ("mcp-protocol-version", MODERN),
            ("mcp-method", "tools/call"),
            ("mcp-name", "t"),
        ];
        headers.extend(header.map(|header| ("mcp-param-region", header)));
        let got = web.send("POST", &headers, body.to_string()).await;
        assert_eq!(got.status.as_u16(), status, "{header:?}");
    }
}
