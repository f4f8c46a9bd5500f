//! A disk limit that no file system upholds: watched, warned of, and kept to by the tools.

use std::time::Duration;

use emergent_client::{Client, CreateWorkspace};
use emergent_test_support::{TestServerOptions, eventually};
use emergent_types::WorkspaceId;
use serde_json::json;

use crate::support::sh;

/// How long a count may take to come round.
const LIMIT: Duration = Duration::from_secs(30);

async fn warned(client: &Client, id: WorkspaceId, of: &str) -> Option<()> {
    client.workspace(id).await.unwrap().warnings.iter().any(|warning| warning.contains(of)).then_some(())
}

#[tokio::test]
async fn tools_write_nothing_more_beyond_a_limit_that_is_watched() {
    let options = TestServerOptions { unprivileged: true, ..TestServerOptions::default() };
    let server = options.with("WORKSPACE_DEFAULT_DISK", "64M").start().await;
    let (client, probe) = (server.client(), server.probe());
    let workspace = client.create(&CreateWorkspace::default()).await.unwrap();
    let id = workspace.id;
    assert!(workspace.warnings.iter().any(|warning| warning.starts_with("disk usage is watched")));
    let tool = |tool: &str| format!("/api/v1/agent/workspaces/{id}/{tool}");
    let small = json!({"file_path": "small", "content": "old"});
    assert_eq!(probe.post(&tool("write"), &small).await.status, 200);

    sh(&client, id, "head -c 54M /dev/urandom > most").await;
    eventually("a warning near the limit", LIMIT, async || warned(&client, id, "80 %").await).await;
    // There is room for this, and none for that.
    assert_eq!(probe.post(&tool("write"), &small).await.status, 200);
    let large = json!({"file_path": "large", "content": "x".repeat(12 << 20)});
    let refused = probe.post(&tool("write"), &large).await;
    assert_eq!(refused.failure(), (507, "no_space"));
    assert_eq!(refused.detail("path").as_str(), Some("large"));
    // Nor for an upload that does not say how long it is, which is 100 MiB.
    let pieces = futures::stream::iter((0..100).map(|_| Ok::<_, std::io::Error>(vec![b'x'; 1 << 20])));
    let upload = probe.request(reqwest::Method::PUT, &tool("files?path=large"));
    let refused = probe.send(upload.body(reqwest::Body::wrap_stream(pieces))).await;
    assert_eq!(refused.failure(), (507, "no_space"), "{}", refused.body);
    assert_eq!(refused.detail("path").as_str(), Some("large"));
    let left = sh(&client, id, "ls -A; du -sm .").await;
    assert!(!left.contains("large") && left.contains("most"), "{left}");

    // Programs are not stopped; where a folder is closed, it is counted all the same.
    sh(&client, id, "mkdir closed; head -c 12M /dev/urandom > closed/rest; chmod 0 closed/rest closed").await;
    eventually("a warning at the limit", LIMIT, async || warned(&client, id, "was reached").await).await;
    for (name, body) in [
        ("write", json!({"file_path": "small", "content": "new"})),
        ("edit", json!({"file_path": "small", "old_string": "old", "new_string": "new"})),
        ("git", json!({"action": "commit", "message": "m", "all": true})),
    ] {
        let refused = probe.post(&tool(name), &body).await;
        assert_eq!(refused.failure(), (507, "no_space"), "{name}");
    }
    assert_eq!(sh(&client, id, "cat small").await, "old");
    let read = probe.post(&tool("read"), &json!({"file_path": "small"})).await;
    assert_eq!(read.status, 200);

    sh(&client, id, "chmod 700 closed; rm -r closed most").await;
    let write = async || (probe.post(&tool("write"), &small).await.status == 200).then_some(());
    eventually("room again", LIMIT, write).await;
    server.finish().await;
}
