//! A server in a page of shell, and how it is registered and called.

use std::time::Duration;

use emergent_client::{BashRequest, Client, ClientError, McpServer, RegisterMcpServer};
use emergent_test_support::{TestServer, TestServerOptions, eventually};
use emergent_types::{NetworkMode, ServerHealth};
use serde_json::json;

pub(crate) const SERVER: &str = include_str!("../../crates/mcp-hosting/tests/hosting/server.sh");

/// A control plane that makes nothing ahead of time.
pub(crate) async fn start() -> TestServer {
    TestServerOptions::default().with("WORKSPACE_WARM_POOL_SIZE", 0).start().await
}

/// A registration of the script, with a word that says how it behaves.
pub(crate) fn server(name: &str, behaviour: &str) -> RegisterMcpServer {
    RegisterMcpServer {
        name: name.to_owned(),
        command: Some(["/bin/sh", "-c", SERVER, "server", behaviour].map(str::to_owned).to_vec()),
        network: Some(NetworkMode::Isolated),
        ..RegisterMcpServer::default()
    }
}

/// Calls a tool and returns its text.
pub(crate) async fn tool(client: &Client, server: &str, tool: &str) -> Result<String, ClientError> {
    let params = json!({"name": tool, "arguments": {}});
    let answer = client.call_mcp_server(server, "tools/call", Some(&params), None).await?;
    let result = answer.result.unwrap_or_else(|| panic!("{tool}: {:?}", answer.error));
    Ok(result["content"][0]["text"].as_str().unwrap_or_default().to_owned())
}

/// The same, once the program answers.
pub(crate) async fn tool_soon(client: &Client, server: &str, name: &str) -> String {
    eventually(&format!("{server} answers"), Duration::from_secs(30), async || {
        tool(client, server, name).await.ok()
    })
    .await
    .0
}

pub(crate) async fn wait_for(client: &Client, server: &str, health: ServerHealth) -> McpServer {
    eventually(&format!("{server} is {health}"), Duration::from_secs(30), async || {
        let found = client.mcp_server(server).await.unwrap();
        (found.health == health).then_some(found)
    })
    .await
    .0
}

/// Kills the program of a server from within its sandbox.
pub(crate) async fn kill(client: &Client, server: &McpServer, pid: &str) {
    let killed = client.bash(server.sandbox.id, &BashRequest::new(format!("kill -9 {pid}"))).await.unwrap();
    assert_eq!(killed.exit_code, 0, "{killed:?}");
}

/// How many processes there are in the sandbox of a server, whose ever they are, those that count included.
pub(crate) async fn all_processes(client: &Client, server: &McpServer) -> usize {
    let found =
        client.bash(server.sandbox.id, &BashRequest::new("ls -d /proc/[0-9]* | wc -l")).await.unwrap();
    found.stdout.trim().parse().unwrap_or(0)
}

/// How many processes of the script there are in the sandbox of a server.
pub(crate) async fn processes(client: &Client, server: &McpServer) -> usize {
    // The brackets keep it from finding itself.
    let count = "grep -l 'An MCP server in [a] page' /proc/[0-9]*/cmdline 2>/dev/null | wc -l";
    let found = client.bash(server.sandbox.id, &BashRequest::new(count)).await.unwrap();
    found.stdout.trim().parse().unwrap_or(0)
}
