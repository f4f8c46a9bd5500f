//! The tools of a workspace for MCP clients: over HTTP, and over standard streams.

use std::collections::BTreeMap;
use std::time::Duration;

use emergent_client::{AuditEntry, BashRequest, CreateWorkspace, ListAudit};
use emergent_test_support::{TestServer, eventually};
use emergent_types::{NetworkMode, WorkspaceId};
use serde_json::{Value, json};

use crate::support::{server, start};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"desktop","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

async fn workspace(control: &TestServer) -> WorkspaceId {
    let request = CreateWorkspace { network: Some(NetworkMode::Isolated), ..CreateWorkspace::default() };
    control.client().create(&request).await.unwrap().id
}

/// Says all of it to `emergent mcp-stdio`, and gives back what it answers, by id.
async fn over_stdio(
    control: &TestServer,
    workspace: WorkspaceId,
    lines: &[String],
) -> BTreeMap<String, Value> {
    let arguments = ["mcp-stdio", "--workspace", &workspace.to_string()];
    let output = control.command_with_input(&arguments, format!("{}\n", lines.join("\n")).as_bytes()).await;
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let answers = output.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    answers.map(|answer| (answer["id"].to_string(), answer)).collect()
}

fn call(id: &Value, tool: &str, arguments: &Value) -> String {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string()
}

async fn audited(control: &TestServer, workspace: WorkspaceId, tool: &str, count: usize) -> Vec<AuditEntry> {
    let audit =
        ListAudit { tool: Some(tool.to_owned()), workspace_id: Some(workspace), ..ListAudit::default() };
    let written = eventually("the calls are written down", Duration::from_secs(10), async || {
        let entries = control.client().audit(&audit).await.unwrap().items;
        (entries.len() >= count && entries.iter().all(|entry| entry.outcome != "running")).then_some(entries)
    });
    written.await.0
}

#[tokio::test]
async fn a_workspace_is_used_over_standard_streams_in_both_eras() {
    let control = start().await;
    let id = workspace(&control).await;
    let old = [
        HELLO.to_owned(),
        INITIALIZED.to_owned(),
        json!({"jsonrpc": "2.0", "id": "list", "method": "tools/list"}).to_string(),
        call(&json!(2), "bash", &json!({"command": "echo hello > greeting; cat greeting"})),
        "this is no message".to_owned(),
    ];
    let answers = over_stdio(&control, id, &old).await;
    assert_eq!(answers["1"]["result"]["protocolVersion"], "2025-11-25", "{answers:?}");
    assert_eq!(answers["\"list\""]["result"]["tools"].as_array().unwrap().len(), 7);
    assert_eq!(answers["2"]["result"]["structuredContent"]["stdout"], "hello\n");
    assert_eq!(answers["null"]["error"]["code"], -32700);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let discover = json!({"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {"_meta": meta}});
    let params = json!({"name": "read", "arguments": {"file_path": "greeting"}, "_meta": meta});
    let read = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let answers = over_stdio(&control, id, &[discover.to_string(), read.to_string()]).await;
    assert!(answers["0"]["result"]["supportedVersions"].is_array(), "{answers:?}");
    assert_eq!(answers["1"]["result"]["resultType"], "complete");
    assert!(answers["1"]["result"]["content"][0]["text"].as_str().unwrap().contains("hello"));
    let entries = audited(&control, id, "bash", 1).await;
    assert_eq!((entries.len(), entries[0].outcome.as_str()), (1, "ok"), "as a call of the API: {entries:?}");
    assert!(!entries[0].request_id.is_empty() && entries[0].request_id != "unknown");
    let nobody = ["mcp-stdio", "--workspace", "0199e6a4-0000-7000-8000-000000000000"];
    assert_eq!(control.command(&nobody).await.code, Some(3));
    control.finish().await;
}

#[tokio::test]
async fn a_client_that_closes_its_stream_ends_the_command() {
    let control = start().await;
    let id = workspace(&control).await;
    let probe = control.probe();
    let body = call(&json!(1), "bash", &json!({"command": "echo $$ > pid; exec sleep 300"}));
    let request = probe
        .request(reqwest::Method::POST, &format!("/api/v1/agent/workspaces/{id}/mcp"))
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .body(body);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200, "the head is there before the command has ended");
    let client = control.client();
    let alive = async || {
        let check = BashRequest::new("kill -0 $(cat pid)");
        (client.bash(id, &check).await.unwrap().exit_code == 0).then_some(())
    };
    eventually("it runs", Duration::from_secs(20), alive).await;
    drop(response);
    let ended = async || alive().await.is_none().then_some(());
    eventually("it has ended", Duration::from_secs(20), ended).await;
    let entries = audited(&control, id, "bash", 2).await;
    assert!(entries.iter().any(|entry| entry.outcome == "cancelled"), "{entries:?}");
    control.finish().await;
}

#[tokio::test]
async fn calls_of_clients_are_written_down_with_their_requests_id() {
    let control = start().await;
    control.client().register_mcp_server(&server("shell", "")).await.unwrap();
    // In the order that the script looks for.
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pid","arguments":{},"_meta":{
        "io.modelcontextprotocol/protocolVersion":"2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let request = control
        .probe()
        .request(reqwest::Method::POST, "/api/v1/mcp/servers/shell/mcp")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "pid")
        .header("x-request-id", "mine-7")
        .header("content-type", "application/json")
        .body(body.replace('\n', ""));
    let answer = request.send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert!(status == 200 && text.contains("\"result\""), "{status}: {text}");
    let audit = ListAudit { tool: Some("mcp_call".to_owned()), ..ListAudit::default() };
    let written = eventually("the call is written down", Duration::from_secs(10), async || {
        let entries = control.client().audit(&audit).await.unwrap().items;
        entries.into_iter().find(|entry| entry.outcome == "ok")
    });
    assert_eq!(written.await.0.request_id, "mine-7");
    control.finish().await;
}
