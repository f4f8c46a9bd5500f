//! Sessions of MCP clients, and whose they are.

use std::time::Duration;

use emergent_client::{CreateToken, RegisterMcpServer};
use emergent_test_support::eventually;
use emergent_types::ServerMode;
use reqwest::header::ACCEPT;
use serde_json::json;

use crate::support::{processes, server, start};

/// Nobody can use a session any more whose token is none; it must not keep a program.
#[tokio::test]
async fn sessions_end_with_their_token() {
    let control = start().await;
    let client = control.client();
    let dedicated = RegisterMcpServer { mode: Some(ServerMode::Dedicated), ..server("own", "") };
    let own = client.register_mcp_server(&dedicated).await.unwrap();
    let guest = CreateToken {
        name: "guest".to_owned(),
        kind: "user".to_owned(),
        mcp_servers: Some(vec!["own".to_owned()]),
        ..CreateToken::default()
    };
    let guest = client.create_token(&guest).await.unwrap();
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"}});
    let opened = reqwest::Client::new()
        .post(format!("{}/api/v1/mcp/servers/own/mcp", control.url()))
        .bearer_auth(&guest.token)
        .header(ACCEPT, "application/json, text/event-stream")
        .json(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}))
        .send()
        .await
        .unwrap();
    assert!(opened.headers().contains_key("mcp-session-id"), "{opened:?}");
    assert_eq!(processes(&client, &own).await, 1);
    client.revoke_token(&guest.about.id).await.unwrap();
    eventually("its program is gone", Duration::from_secs(10), async || {
        (processes(&client, &own).await == 0).then_some(())
    })
    .await;
    control.finish().await;
}
