//! Servers from npm and PyPI.

use emergent_client::BashRequest;
use futures::join;
use serde_json::{Value, json};

use crate::programs::Program::{Node, Python};
use crate::programs::host;
use crate::support::{start, tool_soon};

/// Proves: DESIGN-5.2, DESIGN-5.6, GOAL-2
#[tokio::test]
async fn the_well_known_servers_work_as_they_are() {
    let control = start().await;
    let client = control.client();
    let remembering = ["-e", "MEMORY_FILE_PATH=/workspace/memory.json"];
    let repository = "git init -q . && echo hello > new.txt";
    let (_, memory, filesystem, _, git) = join!(
        host(&control, "everything", &[], Node("server-everything", &[]), ":"),
        host(&control, "memory", &remembering, Node("server-memory", &[]), ":"),
        host(&control, "filesystem", &[], Node("server-filesystem", &["/workspace/files"]), "mkdir files"),
        host(&control, "time", &[], Python("mcp-server-time", &["--local-timezone", "UTC"]), ":"),
        host(&control, "git", &[], Python("mcp-server-git", &["--repository", "/workspace"]), repository),
    );
    let call = async |server: &str, tool: &str, arguments: Value| {
        let line = ["mcp", "call", server, tool, &arguments.to_string()];
        let output = control.command(&line).await;
        assert_eq!(output.code, Some(0), "{server} {tool}: {output:?}");
        output.stdout
    };
    for (server, at_least, tool) in [
        ("everything", 13, "echo"),
        ("memory", 9, "read_graph"),
        ("filesystem", 14, "read_text_file"),
        ("time", 2, "convert_time"),
        ("git", 12, "git_status"),
    ] {
        let tools = control.command(&["mcp", "call", server]).await.stdout;
        assert!(tools.lines().count() >= at_least, "{server}: {tools}");
        assert!(tools.lines().any(|line| line == tool), "{server}: {tools}");
    }
    assert_eq!(call("everything", "echo", json!({"message": "hello"})).await.trim(), "Echo: hello");
    let noon = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    assert!(call("time", "convert_time", noon).await.contains("21:00"));
    assert!(call("git", "git_status", json!({"repo_path": "/workspace"})).await.contains("new.txt"));
    call("filesystem", "write_file", json!({"path": "/workspace/files/a.txt", "content": "kept"})).await;
    let written = client.bash(filesystem.sandbox.id, &BashRequest::new("cat files/a.txt")).await.unwrap();
    assert_eq!(written.stdout, "kept");
    let outside = json!({"path": "/etc/hostname", "content": "x"});
    let refused = control.command(&["mcp", "call", "filesystem", "write_file", &outside.to_string()]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");

    // What a server has written is there for the next one.
    let entity = json!({"entities": [{"name": "tea", "entityType": "drink", "observations": ["hot"]}]});
    call("memory", "create_entities", entity).await;
    let kill = BashRequest::new("pkill -9 -f '[s]erver-memory'");
    assert_eq!(client.bash(memory.sandbox.id, &kill).await.unwrap().exit_code, 0);
    let graph = tool_soon(&client, "memory", "read_graph").await;
    assert!(graph.contains("tea") && graph.contains("hot"), "{graph}");
    assert_eq!(client.mcp_server("memory").await.unwrap().restart_count, 1);
    assert_eq!(client.mcp_server(&git.name).await.unwrap().restart_count, 0);
    control.finish().await;
}
