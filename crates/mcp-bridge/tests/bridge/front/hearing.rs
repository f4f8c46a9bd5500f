use std::sync::{Arc, Mutex};
use std::time::Duration;

use emergent_mcp_bridge::front::{CallOutcome, CallReport, FrontOptions, Observer};
use serde_json::json;

use super::web::{Web, scripted, settle};

#[derive(Default)]
struct Told(Mutex<Vec<CallReport>>);

impl Observer for Told {
    fn called(&self, report: CallReport) {
        self.0.lock().unwrap().push(report);
    }
}

#[tokio::test]
async fn every_call_of_a_tool_is_told_once() {
    let told = Arc::new(Told::default());
    let options = FrontOptions {
        observer: Some(told.clone()),
        json_grace: Duration::from_millis(20),
        call_timeout: Some(Duration::from_millis(300)),
        ..FrontOptions::default()
    };
    let (front, mut fake, _ended) = scripted(options).await;
    let web = Web::introduced(&front, "me", "2025-11-25").await;
    for (tool, answer) in [
        ("good", json!({"result": {"content": []}})),
        ("bad", json!({"result": {"isError": true}})),
        ("worse", json!({"error": {"code": -32602, "message": "no"}})),
    ] {
        let (_, ()) =
            tokio::join!(async { web.call(json!(1), tool, json!({})).await.answer().await }, async {
                let mut answer = answer.clone();
                answer["id"] = fake.expect("tools/call").await["id"].clone();
                fake.say(&answer.to_string()).await;
            });
    }
    web.call(json!(1), "slow", json!({})).await.answer().await;
    fake.expect("tools/call").await;
    fake.expect("notifications/cancelled").await;
    let _pending = web.call(json!("x"), "unwanted", json!({})).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}});
    web.post(&cancel).await;
    // What the newer era does not read to its end.
    tokio::spawn(async move {
        loop {
            let request = fake.hear().await;
            if request["method"] == "tools/list" {
                fake.answer(&request, json!({"tools": []})).await;
            }
        }
    });
    drop(web.modern(json!(1), "tools/call", json!({"name": "left", "arguments": {}})).await);
    let listed = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/list"});
    web.post(&listed).await.answer().await;
    settle().await;
    let told = told.0.lock().unwrap();
    let seen: Vec<(&str, CallOutcome)> =
        told.iter().map(|report| (report.tool.as_str(), report.outcome)).collect();
    assert_eq!(
        seen,
        [
            ("good", CallOutcome::Ok),
            ("bad", CallOutcome::ToolError),
            ("worse", CallOutcome::ProtocolError),
            ("slow", CallOutcome::Timeout),
            ("unwanted", CallOutcome::Cancelled),
            ("left", CallOutcome::Cancelled),
        ]
    );
    assert!(told.iter().all(|report| report.principal.as_str() == "me"));
    assert!(told[3].duration >= Duration::from_millis(300));
}

#[tokio::test]
async fn a_call_whose_server_ended_is_told_as_such() {
    let told = Arc::new(Told::default());
    let options = FrontOptions { observer: Some(told.clone()), ..FrontOptions::default() };
    let (front, mut fake, _ended) = scripted(options).await;
    let web = Web::introduced(&front, "me", "2025-11-25").await;
    tokio::join!(
        async {
            web.call(json!(1), "unlucky", json!({})).await.answer().await;
        },
        async {
            fake.expect("tools/call").await;
            drop(fake);
        }
    );
    settle().await;
    let told = told.0.lock().unwrap();
    let seen: Vec<_> = told.iter().map(|report| (report.tool.as_str(), report.outcome)).collect();
    assert_eq!(seen, [("unlucky", CallOutcome::Ended)]);
}
