use std::collections::BTreeSet;
use std::sync::Arc;

use emergent_mcp_bridge::front::{Front, FrontOptions};
use emergent_mcp_bridge::{Options, Reply, ToolRules};
use serde_json::{Value, json};

use super::web::{BOTH, MODERN, Web};
use crate::support::{legacy, raw};

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// One rule for lists and calls of both eras, and for calls without a session.
#[tokio::test]
async fn tools_that_are_not_offered_are_not_there() {
    let tools = ToolRules { allow: Some(names(&["a", "b"])), deny: names(&["b"]) };
    let (handle, mut fake, _ended) = legacy(Options { tools, ..Options::default() }).await;
    let front = Front::new(Arc::new(handle.clone()), FrontOptions::default());
    let web = Web::introduced(&front, "me", "2025-11-25").await;
    let script = tokio::spawn(async move {
        let mut called = Vec::new();
        loop {
            let request = fake.hear().await;
            match request["method"].as_str().unwrap() {
                "tools/list" => {
                    let list = r#"{"tools":[{"name":"a", "x":1.0},{"name":"b"},{"name":"c"}]}"#;
                    fake.say(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{list}}}"#, request["id"])).await;
                }
                _ => {
                    called.push(request["params"]["name"].clone());
                    fake.answer(&request, json!({})).await;
                    if called.len() == 3 {
                        return called;
                    }
                }
            }
        }
    });
    let list = web.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    let text = http_body_util::BodyExt::collect(list.body).await.unwrap().to_bytes();
    assert_eq!(text, r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a", "x":1.0}]}}"#);
    let list = web.modern(json!(1), "tools/list", json!({})).await.answer().await;
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 1);
    for refused in ["b", "c"] {
        let named = json!({"name": refused, "arguments": {}});
        for answer in [
            web.call(json!(2), refused, json!({})).await.answer().await,
            web.modern(json!(2), "tools/call", named).await.answer().await,
        ] {
            assert_eq!(answer["error"]["code"], -32602);
            assert!(answer["error"]["message"].as_str().unwrap().contains("is not offered"));
        }
        let Reply::Error(error) = handle.call_tool(refused, None, None).await.unwrap() else { panic!() };
        assert!(error.as_str().contains("is not offered"));
        let params = raw(json!({"name": refused}).to_string());
        let reply = handle.request("tools/call", &params, None).await.unwrap();
        assert!(matches!(reply, Reply::Error(_)));
    }
    assert!(web.call(json!(3), "a", json!({})).await.answer().await.get("result").is_some());
    assert!(matches!(handle.call_tool("a", None, None).await.unwrap(), Reply::Result(_)));
    // It can be changed while the server runs.
    let mut events = web.get(None).await.events();
    handle.set_tool_rules(ToolRules::default());
    assert_eq!(events.data().await["method"], "notifications/tools/list_changed");
    assert!(web.call(json!(3), "b", json!({})).await.answer().await.get("result").is_some());
    assert_eq!(script.await.unwrap(), [Value::from("a"), Value::from("a"), Value::from("b")]);
}

/// What readers disagree about reaches no server: another reader could take another name for the tool's.
#[tokio::test]
async fn a_tool_has_one_name_or_is_not_called() {
    let tools = ToolRules { allow: None, deny: names(&["denied"]) };
    let (handle, mut fake, _ended) = legacy(Options { tools, ..Options::default() }).await;
    let front = Front::new(Arc::new(handle.clone()), FrontOptions::default());
    let web = Web::introduced(&front, "me", "2025-11-25").await;
    let alone = Web::new(&front, "me");
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let json = [("accept", BOTH), ("content-type", "application/json")];
    for members in [
        r#""name":"echo","name":"denied""#,
        r#""name":"echo","n\u0061me":"denied""#,
        r#""name":"echo","Name":"denied""#,
        r#""name":"denied\ud800""#,
        r#""name":["denied"]"#,
        r#""arguments":{}"#,
        r#""NAME":"denied""#,
    ] {
        let body = |more: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{{members}{more}}}}}"#)
        };
        let legacy = web.send("POST", &json, body("")).await.answer().await;
        assert!(legacy["error"]["code"].is_i64(), "{members}: {legacy}");
        for named in [None, Some("echo"), Some("denied")] {
            let mut headers = json.to_vec();
            headers.extend([("mcp-protocol-version", MODERN), ("mcp-method", "tools/call")]);
            headers.extend(named.map(|name| ("mcp-name", name)));
            let modern = alone.send("POST", &headers, body(&format!(",{meta}"))).await.answer().await;
            assert!(modern["error"]["code"].is_i64(), "{members}: {modern}");
        }
        let params = raw(format!("{{{members}}}"));
        let asked = handle.request("tools/call", &params, None).await;
        assert!(!matches!(asked, Ok(Reply::Result(_))), "{members}: {asked:?}");
    }
    let other_case = r#"{"jsonrpc":"2.0","id":7,"method":"prompts/list","Method":"tools/call","params":{"name":"denied"}}"#;
    let answer = web.send("POST", &json, other_case).await.answer().await;
    assert!(answer["error"]["code"].is_i64(), "{answer}");
    fake.silence(100).await;
}
