//! Fifty clients that all use the id 1, on a program that does what it should not, and is killed meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use emergent_client::{BashRequest, Client, ClientError, McpServer, RegisterMcpServer};
use emergent_test_support::{TestServer, eventually};
use emergent_types::{NetworkMode, ServerHealth};
use futures::future::join_all;
use futures::join;
use reqwest::header::ACCEPT;
use serde_json::{Value, json};

use crate::support::{start, wait_for};

const ROUGH: &str = include_str!("rough.py");
const CLIENTS: usize = 50;
const CALLS_EACH: usize = 200;
/// After how many answers the program is killed.
const KILLS: [usize; 2] = [3000, 6000];

/// A session of the older era, with as little around it as possible.
struct Session<'a> {
    control: &'a TestServer,
    http: reqwest::Client,
    id: String,
}

impl<'a> Session<'a> {
    async fn open(control: &'a TestServer) -> Self {
        let mut session = Self { control, http: reqwest::Client::new(), id: String::new() };
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"}});
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let response = session.post(&hello).await;
        session.id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        session.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        session
    }

    async fn post(&self, message: &Value) -> reqwest::Response {
        let url = format!("{}/api/v1/mcp/servers/rough/mcp", self.control.url());
        let mut request = self.http.post(url).bearer_auth(self.control.token()).json(message);
        request = request.header(ACCEPT, "application/json, text/event-stream");
        if !self.id.is_empty() {
            request = request.header("mcp-session-id", &self.id).header("mcp-protocol-version", "2025-11-25");
        }
        request.send().await.unwrap()
    }

    /// Every message that came back.
    async fn call(&self, nonce: &str) -> Vec<Value> {
        let params = json!({"name": "echo", "arguments": {"nonce": nonce}});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let body = self.post(&request).await.text().await.unwrap();
        if body.starts_with('{') {
            return vec![serde_json::from_str(&body).unwrap()];
        }
        let events = body.lines().filter_map(|line| line.strip_prefix("data:"));
        events
            .map(str::trim)
            .filter(|data| !data.is_empty())
            .map(|data| serde_json::from_str(data).unwrap())
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_goes_astray_whatever_the_program_does() {
    let control = start().await;
    let client = control.client();
    let server = client.register_mcp_server(&rough()).await.unwrap();
    assert_eq!(server.health, ServerHealth::Ok, "{server:?}");
    let (answered, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let sessions = join_all((0..CLIENTS).map(|_| Session::open(&control))).await;
    let everybody = join_all(sessions.iter().enumerate().map(async |(number, session)| {
        for call in 0..CALLS_EACH {
            let nonce = format!("{number}/{call}");
            while !is_answer(&session.call(&nonce).await, &nonce) {
                failed.fetch_add(1, Ordering::Relaxed);
            }
            answered.fetch_add(1, Ordering::Relaxed);
        }
    }));
    let (_, (), ()) = join!(everybody, kill_it(&client, &server, &answered), be_late(&client));
    assert_eq!(answered.into_inner(), CLIENTS * CALLS_EACH);
    let failed = failed.into_inner();
    assert!(failed <= KILLS.len() * CLIENTS, "{failed} failed that were not under way when it was killed");

    // A line of 100 MB fails its call, and costs neither the program nor this memory.
    let before = control.resident_kib();
    let refused = call(&client, "long", None).await.unwrap_err();
    assert_eq!(refused.code(), Some("mcp_answer_unusable"), "{refused:?}");
    let grown = control.resident_kib().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB");
    assert!(is_answer(&sessions[0].call("after all").await, "after all"));
    let after = client.mcp_server("rough").await.unwrap();
    assert_eq!((after.health, after.restart_count), (ServerHealth::Ok, 2), "{after:?}");
    control.finish().await;
}

fn rough() -> RegisterMcpServer {
    RegisterMcpServer {
        name: "rough".to_owned(),
        command: Some(["/usr/bin/python3", "-c", ROUGH].map(str::to_owned).to_vec()),
        network: Some(NetworkMode::Isolated),
        ..RegisterMcpServer::default()
    }
}

/// Whether a call was answered. One that was not must say that the program has ended; anything else that is not
/// this call's own answer is somebody else's.
fn is_answer(messages: &[Value], nonce: &str) -> bool {
    let [answer] = messages else { panic!("{nonce}: {messages:?}") };
    assert_eq!(answer["id"], 1, "{nonce}: {answer}");
    if answer.get("error").is_some() {
        assert!(answer["error"]["message"].as_str().unwrap().contains("signal 9"), "{nonce}: {answer}");
        return false;
    }
    assert_eq!(answer["result"], json!({"content": [{"type": "text", "text": nonce}]}));
    true
}

async fn kill_it(client: &Client, server: &McpServer, answered: &AtomicUsize) {
    for count in KILLS {
        eventually("half of the answers", Duration::from_secs(100), async || {
            (answered.load(Ordering::Relaxed) >= count).then_some(())
        })
        .await;
        let kill = BashRequest::new("pkill -9 -f 'A [r]ough MCP server'");
        assert_eq!(client.bash(server.sandbox.id, &kill).await.unwrap().exit_code, 0);
        wait_for(client, "rough", ServerHealth::Ok).await;
    }
}

/// Calls that are given up before they are answered.
async fn be_late(client: &Client) {
    for _ in 0..20 {
        let late = call(client, "late", Some(Duration::from_millis(100))).await.unwrap_err();
        let ended = late.code() == Some("mcp_server_ended") || late.code() == Some("mcp_server_unavailable");
        assert!(late.code() == Some("timeout") || ended, "{late:?}");
    }
}

async fn call(client: &Client, tool: &str, patience: Option<Duration>) -> Result<Value, ClientError> {
    let params = json!({"name": tool, "arguments": {}});
    let answer = client.call_mcp_server("rough", "tools/call", Some(&params), patience).await?;
    Ok(answer.result.unwrap_or_default())
}
