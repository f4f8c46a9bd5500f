//! A server that speaks HTTP, bridged: its HTTP is that of a front over a scripted server.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use emergent_mcp_bridge::front::{Front, FrontOptions, Principal};
use emergent_mcp_bridge::remote::{Endpoint, Pieces, RemoteEnd, RemoteOptions, serve};
use emergent_mcp_bridge::{Bridge, CallError, Era, EraChoice, Handle, Options, Reply, ServerIo};
use futures::{StreamExt as _, stream};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyDataStream;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{call, introduce, legacy, modern, next_notice, raw, value};

/// A front, reached as a server far away is. Keeps the headers of what it was asked.
struct Far {
    front: Front,
    asked: Mutex<Vec<(Method, HeaderMap)>>,
}

#[async_trait::async_trait]
impl Endpoint for Far {
    async fn send(&self, request: Request<Bytes>) -> io::Result<Response<Pieces>> {
        self.asked.lock().unwrap().push((request.method().clone(), request.headers().clone()));
        let response = self.front.serve(Principal::new("far"), request).await;
        Ok(response.map(|body| BodyDataStream::new(body).map(|piece| Ok(piece.unwrap())).boxed()))
    }
}

fn over(endpoint: Arc<dyn Endpoint>, options: Options) -> (Handle, JoinHandle<RemoteEnd>) {
    let (stdin, input) = tokio::io::duplex(1 << 16);
    let (output, stdout) = tokio::io::duplex(1 << 16);
    let settle = Duration::from_millis(10);
    let ended =
        tokio::spawn(serve(endpoint, input, output, RemoteOptions { settle, ..RemoteOptions::default() }));
    let (handle, _) = Bridge::start(options, ServerIo::new(stdin, stdout));
    (handle, ended)
}

fn far(front: &Front) -> Arc<Far> {
    Arc::new(Far { front: front.clone(), asked: Mutex::default() })
}

fn front(handle: Handle) -> Front {
    Front::new(Arc::new(handle), FrontOptions::default())
}

fn in_era(era: EraChoice) -> Options {
    Options { era, ..Options::default() }
}

async fn ready(handle: &Handle) -> Era {
    handle.ready(Duration::from_secs(5)).await.unwrap().era
}

fn result(reply: Reply) -> Value {
    match reply {
        Reply::Result(result) => value(&result),
        Reply::Error(error) => panic!("{}", error.as_str()),
    }
}

#[tokio::test]
async fn both_eras_are_spoken_and_each_wants_its_headers() {
    for (choice, era) in [(EraChoice::Probe, Era::Modern), (EraChoice::Legacy, Era::Legacy)] {
        let (server, mut fake, _) = legacy(Options::default()).await;
        let far = far(&front(server));
        let (handle, _) = over(far.clone(), in_era(choice));
        assert_eq!(ready(&handle).await, era);
        let asking = tokio::spawn({
            let handle = handle.clone();
            async move { handle.call_tool("grün", Some(&raw(r#"{"a":1e3}"#)), None).await }
        });
        if era == Era::Modern {
            // Which arguments have to be repeated in headers is asked first, on both sides.
            for _ in 0..2 {
                let list = fake.expect("tools/list").await;
                fake.answer(&list, json!({"tools": [{"name": "grün", "inputSchema": {"type": "object"}}]}))
                    .await;
            }
        }
        let heard = fake.hear_text().await;
        assert!(heard.contains(r#""arguments":{"a":1e3}"#), "as it was sent: {heard}");
        let heard: Value = serde_json::from_str(&heard).unwrap();
        fake.answer(&heard, json!({"content": []})).await;
        assert_eq!(result(asking.await.unwrap().unwrap())["content"], json!([]));
        let asked = far.asked.lock().unwrap();
        let (_, last) = asked.iter().rfind(|(method, _)| *method == Method::POST).unwrap();
        match era {
            Era::Modern => {
                assert_eq!(last["mcp-protocol-version"], "2026-07-28");
                assert_eq!(
                    (&last["mcp-method"], &last["mcp-name"]),
                    (&"tools/call".parse().unwrap(), &"=?base64?Z3LDvG4=?=".parse().unwrap())
                );
                assert!(!last.contains_key("mcp-session-id"));
            }
            Era::Legacy => {
                assert_eq!(last["mcp-protocol-version"], "2025-11-25");
                assert!(last.contains_key("mcp-session-id") && !last.contains_key("mcp-method"));
            }
        }
    }
}

#[tokio::test]
async fn arguments_are_repeated_in_headers_where_the_schema_says_so() {
    let (server, mut fake, _) = modern(Options::default()).await;
    let far = far(&front(server));
    let (handle, _) = over(far.clone(), in_era(EraChoice::Probe));
    assert_eq!(ready(&handle).await, Era::Modern);
    tokio::spawn(async move {
        let schema =
            json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
        loop {
            let heard = fake.hear().await;
            match heard["method"].as_str().unwrap() {
                "tools/list" => {
                    let tools = json!([{"name": "deploy", "inputSchema": schema}]);
                    let list = json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"});
                    fake.answer(&heard, list).await;
                }
                "tools/call" => fake.answer(&heard, json!({"resultType": "complete", "content": []})).await,
                _ => {}
            }
        }
    });
    // A front refuses a call whose header does not say what its argument says.
    let called = handle.call_tool("deploy", Some(&raw(r#"{"region":"eu"}"#)), None).await.unwrap();
    assert_eq!(result(called)["content"], json!([]));
    let asked = far.asked.lock().unwrap();
    assert!(
        asked.iter().any(|(_, headers)| headers.get("mcp-param-region").is_some_and(|region| region == "eu"))
    );
}

#[tokio::test]
async fn what_a_server_says_meanwhile_and_unasked_arrives_at_once() {
    for choice in [EraChoice::Probe, EraChoice::Legacy] {
        let (server, mut fake, _) = legacy(Options::default()).await;
        let (handle, _) = over(far(&front(server)), in_era(choice));
        ready(&handle).await;
        let client = Arc::new(handle.connect().unwrap());
        introduce(&client, "2025-11-25").await;
        let request = call("7", "tools/call", r#"{"name":"slow","_meta":{"progressToken":"mine"}}"#);
        let answer = {
            let client = client.clone();
            tokio::spawn(async move { client.request(request).await })
        };
        let heard = loop {
            let heard = fake.hear().await;
            match heard["method"].as_str() {
                Some("tools/call") => break heard,
                Some("tools/list") => fake.answer(&heard, json!({"tools": []})).await,
                _ => {}
            }
        };
        let token = &heard["params"]["_meta"]["progressToken"];
        let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}});
        fake.say(&progress.to_string()).await;
        let notice = next_notice(&client).await;
        assert_eq!(
            (&notice["method"], &notice["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!("mine"))
        );
        fake.answer(&heard, json!({"content": []})).await;
        assert_eq!(value(&answer.await.unwrap().unwrap())["id"], 7);
        fake.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#).await;
        assert_eq!(next_notice(&client).await["method"], "notifications/tools/list_changed");
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_is_cancelled_far_away() {
    for choice in [EraChoice::Probe, EraChoice::Legacy] {
        let (server, mut fake, _) = legacy(Options::default()).await;
        let (handle, _) = over(far(&front(server)), in_era(choice));
        ready(&handle).await;
        let nothing = raw("{}");
        let hanging = handle.request("prompts/list", &nothing, Some(Duration::from_millis(100)));
        let (given_up, heard) = tokio::join!(hanging, fake.expect("prompts/list"));
        assert!(matches!(given_up, Err(CallError::TimedOut(_))), "{given_up:?}");
        let cancelled = fake.expect("notifications/cancelled").await;
        assert_eq!(cancelled["params"]["requestId"], heard["id"]);
    }
}

#[tokio::test]
async fn a_session_that_is_forgotten_is_the_end() {
    let (server, _fake, _) = legacy(Options::default()).await;
    let front = front(server);
    let (handle, ended) = over(far(&front), in_era(EraChoice::Legacy));
    ready(&handle).await;
    handle.ping(Duration::from_secs(5)).await.unwrap();
    assert!(!ended.is_finished());
    front.end_sessions_of(&Principal::new("far"));
    let lost = handle.ping(Duration::from_secs(5)).await;
    assert!(lost.is_ok() || matches!(lost, Err(CallError::Ended { .. })), "it is answered: {lost:?}");
    assert_eq!(ended.await.unwrap(), RemoteEnd::SessionLost);
}

#[tokio::test]
async fn leaving_ends_the_session() {
    let (server, _fake, _) = legacy(Options::default()).await;
    let front = front(server);
    let far = far(&front);
    let (handle, ended) = over(far.clone(), in_era(EraChoice::Legacy));
    ready(&handle).await;
    assert_eq!(front.sessions(), 1);
    drop(handle);
    assert_eq!(ended.await.unwrap(), RemoteEnd::InputClosed);
    assert_eq!(front.sessions(), 0);
    assert!(far.asked.lock().unwrap().iter().any(|(method, _)| *method == Method::DELETE));
}

/// Answers everything after the handshake with one thing.
struct Odd {
    status: u16,
    media: &'static str,
    body: Vec<&'static str>,
}

#[async_trait::async_trait]
impl Endpoint for Odd {
    async fn send(&self, request: Request<Bytes>) -> io::Result<Response<Pieces>> {
        let message: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let answer = |status: u16, media: &str, body: Vec<String>| {
            let pieces = stream::iter(body).map(|piece| Ok(Bytes::from(piece))).boxed();
            Ok(Response::builder().status(status).header("content-type", media).body(pieces).unwrap())
        };
        match message["method"].as_str() {
            Some("initialize") => {
                let result = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "odd", "version": "1"}});
                let text = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
                answer(200, "application/json; charset=utf-8", vec![text])
            }
            Some("notifications/initialized") => answer(202, "", Vec::new()),
            Some(_) => {
                answer(self.status, self.media, self.body.iter().map(|piece| (*piece).to_owned()).collect())
            }
            None => answer(405, "text/plain", Vec::new()),
        }
    }
}

#[tokio::test]
async fn odd_answers_fail_the_call_and_nothing_else() {
    let huge: &'static str = "x".repeat(17 << 20).leak();
    for (status, media, body, expect) in [
        (500, "text/plain", vec!["it broke"], "HTTP 500 Internal Server Error: it broke"),
        (400, "application/json", vec![r#"{"error":{"code":-32099,"message":"mine"},"id":null}"#], "-32099"),
        (400, "application/json", vec![r#"{"error":{"code":"forbidden","message":"no entry"}}"#], "no entry"),
        (202, "", vec![], "answers nothing"),
        (200, "text/html", vec!["<html>"], "answers nothing"),
        (200, "application/json", vec!["not json"], "none to this request"),
        (
            200,
            "application/json",
            vec![r#"{"jsonrpc":"2.0","id":"another","result":{}}"#],
            "none to this request",
        ),
        (200, "application/json", vec![huge], "longer than"),
        (
            200,
            "text/event-stream",
            vec!["data: {\"method\":\"notifications/x\"}\n\n"],
            "before it was complete",
        ),
        (200, "text/event-stream", vec!["data: ", huge], "longer than"),
    ] {
        let odd = Odd { status, media, body };
        let (handle, ended) = over(Arc::new(odd), in_era(EraChoice::Legacy));
        ready(&handle).await;
        let reply = handle.request("tools/list", &raw("{}"), Some(Duration::from_secs(10))).await.unwrap();
        let Reply::Error(error) = reply else { panic!("{expect}: {reply:?}") };
        assert!(error.as_str().contains(expect), "{expect}: {}", error.as_str());
        assert!(!ended.is_finished(), "{expect}");
    }
}
