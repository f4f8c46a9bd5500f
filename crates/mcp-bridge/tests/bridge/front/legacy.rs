use std::sync::Arc;

use emergent_mcp_bridge::front::{Front, FrontOptions, Principal};
use http::StatusCode;
use serde_json::{Value, json};

use super::web::{BOTH, Web, call, echoing, scripted};

#[tokio::test]
async fn what_is_refused_and_how() {
    let (front, _ended) = echoing(FrontOptions { max_body_bytes: 2000, ..FrontOptions::default() });
    let web = Web::introduced(&front, "me", "2025-11-25").await;
    let call = call(json!(7), "t", json!({})).to_string();
    let json_type = ("content-type", "application/json");
    let all = [("accept", BOTH), json_type];
    let check = async |web: &Web, method: &str, headers: &[(&str, &str)], body: &str, expect: u16| {
        let got = web.send(method, headers, body.to_owned()).await;
        assert_eq!(got.status.as_u16(), expect, "{method} {headers:?} {body}");
        got
    };
    check(&web, "POST", &[json_type], &call, 406).await;
    check(&web, "POST", &[("accept", "application/json"), json_type], &call, 406).await;
    check(&web, "POST", &[("accept", BOTH)], &call, 415).await;
    check(&web, "POST", &[("accept", BOTH), ("content-type", "text/plain")], &call, 415).await;
    check(&web, "POST", &all, &" ".repeat(2001), 413).await;
    let broken = check(&web, "POST", &all, "{", 400).await.json().await;
    assert_eq!((&broken["error"]["code"], &broken["id"]), (&json!(-32700), &Value::Null));
    let shapeless = check(&web, "POST", &all, r#"{"jsonrpc":"1.0","id":3,"method":"x"}"#, 400).await;
    assert_eq!(shapeless.json().await["id"], 3);
    check(&web, "GET", &[("accept", "application/json")], "", 406).await;
    check(&web, "GET", &[("accept", "text/event-stream"), ("last-event-id", "nonsense")], "", 400).await;
    check(&web, "GET", &[("accept", "text/event-stream"), ("last-event-id", "99-1")], "", 400).await;
    let put = check(&web, "PUT", &all, &call, 405).await;
    assert_eq!(put.headers["allow"], "GET, POST, DELETE");
    check(&web, "POST", &[all[0], all[1], ("mcp-protocol-version", "1999-01-01")], &call, 400).await;
    check(&web, "POST", &[all[0], all[1], ("mcp-protocol-version", "2025-06-18")], &call, 200).await;

    let nobody = Web { session: None, ..web.clone() };
    for (method, headers) in
        [("POST", &all[..]), ("GET", &[("accept", "text/event-stream")]), ("DELETE", &[])]
    {
        check(&nobody, method, headers, &call, 400).await;
    }
    // Neither what does not exist nor what is somebody else's.
    let stranger = Web { principal: Principal::new("other"), ..web.clone() };
    let unknown = Web { session: Some("0".repeat(32)), ..web.clone() };
    for web in [stranger, unknown] {
        for (method, headers) in
            [("POST", &all[..]), ("GET", &[("accept", "text/event-stream")]), ("DELETE", &[])]
        {
            check(&web, method, headers, &call, 404).await;
        }
    }
    assert_eq!(front.sessions(), 1);
}

#[tokio::test]
async fn versions_are_echoed_and_ids_of_sessions_are_their_own() {
    let (front, _ended) = echoing(FrontOptions::default());
    let mut ids = std::collections::BTreeSet::new();
    for (asked, told) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2030-01-01", "2025-11-25"),
    ] {
        let mut web = Web::new(&front, "me");
        assert_eq!(web.introduce(asked).await["result"]["protocolVersion"], told);
        let id = web.session.clone().unwrap();
        assert!(id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_graphic()));
        ids.insert(id);
    }
    assert_eq!((ids.len(), front.sessions()), (5, 5));
}

/// Everybody calls with the same id, and everybody gets what they asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_clients_that_all_use_id_1() {
    let (front, _ended) = echoing(FrontOptions::default());
    let clients = (0..50).map(|client| {
        let front = front.clone();
        tokio::spawn(async move {
            let principal = format!("p{}", client % 7);
            let web = Web::introduced(&front, &principal, "2025-11-25").await;
            for round in 0..20 {
                let nonce = json!({"nonce": format!("{client}-{round}"), "n": client * 1000 + round});
                let answer = if round % 2 == 0 {
                    web.call(json!(1), "echo", nonce.clone()).await.answer().await
                } else {
                    let params = json!({"name": "echo", "arguments": nonce});
                    web.modern(json!(1), "tools/call", params).await.answer().await
                };
                assert_eq!(answer["id"], 1);
                let mut result = answer["result"].clone();
                result.as_object_mut().unwrap().remove("resultType");
                assert_eq!(result, nonce);
            }
        })
    });
    for client in futures::future::join_all(clients).await {
        client.unwrap();
    }
    assert_eq!(front.sessions(), 50);
}

#[tokio::test]
async fn ids_and_bytes_come_back_as_they_were() {
    let (front, mut fake, _ended) = scripted(FrontOptions::default()).await;
    let web = Web::introduced(&front, "me", "2025-06-18").await;
    let body =
        r#"{"jsonrpc":"2.0","id":1.50,"method":"tools/call","params":{"name":"t","arguments":{"x":1.0}}}"#;
    let headers = [("accept", BOTH), ("content-type", "application/json; charset=utf-8")];
    let (got, ()) = tokio::join!(web.send("POST", &headers, body), async {
        let heard = fake.hear_text().await;
        assert!(heard.contains(r#""params":{"name":"t","arguments":{"x":1.0}}"#));
        let id = serde_json::from_str::<Value>(&heard).unwrap()["id"].to_string();
        fake.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"a":1.0, "a":2}}}}"#)).await;
    });
    let bytes = http_body_util::BodyExt::collect(got.body).await.unwrap().to_bytes();
    assert_eq!(bytes, r#"{"jsonrpc":"2.0","id":1.50,"result":{"a":1.0, "a":2}}"#);
}

#[tokio::test]
async fn batches_are_for_one_version() {
    let (front, _ended) = echoing(FrontOptions::default());
    let batch = json!([
        call(json!("a"), "t", json!({"n": 1})),
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
        call(json!("b"), "t", json!({"n": 2})),
        {"jsonrpc": "2.0", "id": "c", "method": "initialize", "params": {}},
        {"id": "d"},
    ]);
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let web = Web::introduced(&front, "me", version).await;
        let refused = web.post(&batch).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        assert_eq!(refused.json().await["error"]["code"], -32600);
    }
    assert_eq!(Web::new(&front, "me").post(&batch).await.status, StatusCode::BAD_REQUEST);
    let web = Web::introduced(&front, "me", "2025-03-26").await;
    let mut events = web.post(&batch).await.events();
    let mut answers = std::collections::BTreeMap::new();
    while let Some(event) = events.next().await {
        answers.insert(event.data["id"].as_str().unwrap().to_owned(), event.data);
    }
    assert_eq!(answers.len(), 4);
    assert_eq!((&answers["a"]["result"]["n"], &answers["b"]["result"]["n"]), (&json!(1), &json!(2)));
    assert_eq!(answers["c"]["error"]["code"], -32600);
    assert_eq!(answers["d"]["error"]["code"], -32600);
    let told = web.post(&json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}])).await;
    assert_eq!(told.status, StatusCode::ACCEPTED);
    assert_eq!(web.post(&json!([])).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_server_that_cannot_be_used_says_why() {
    struct Nothing;
    #[async_trait::async_trait]
    impl emergent_mcp_bridge::front::Connector for Nothing {
        fn sharing(&self) -> emergent_mcp_bridge::front::Sharing {
            emergent_mcp_bridge::front::Sharing::Shared
        }
        async fn open(
            &self,
            _: emergent_mcp_bridge::front::Opening,
        ) -> Result<emergent_mcp_bridge::front::Opened, emergent_mcp_bridge::front::OpenError> {
            Err(emergent_mcp_bridge::front::OpenError::Unavailable("it is backing off".into()))
        }
    }
    let front = Front::new(Arc::new(Nothing), FrontOptions::default());
    let web = Web::new(&front, "me");
    let got = web.post(&json!({"jsonrpc": "2.0", "id": 4, "method": "initialize", "params": {}})).await;
    assert_eq!(got.status, StatusCode::SERVICE_UNAVAILABLE);
    let got = got.json().await;
    assert_eq!(got["id"], 4);
    assert!(got["error"]["message"].as_str().unwrap().contains("backing off"));
}
