//! `emergent mcp`.

use emergent_client::ListAudit;
use serde_json::{Value, json};

use crate::support::{SERVER, start};

#[tokio::test]
async fn a_server_is_added_called_looked_at_and_removed() {
    let control = start().await;
    let run = async |arguments: &[&str]| control.command(&[["mcp"].as_slice(), arguments].concat()).await;
    let added = run(&[
        "add",
        "shell",
        "--network",
        "isolated",
        "-e",
        "SECRET=hunter2",
        "--deny-tool",
        "crash",
        "--",
        "/bin/sh",
        "-c",
        SERVER,
        "server",
        "",
    ])
    .await;
    assert_eq!(added.code, Some(0), "{added:?}");
    assert!(added.stdout.contains("SECRET") && !added.stdout.contains("hunter2"), "{added:?}");

    let listed = run(&["list"]).await.stdout;
    assert!(listed.lines().any(|line| line.starts_with("shell") && line.contains("ok")), "{listed}");
    let tools = run(&["call", "shell"]).await.stdout;
    assert_eq!(tools.lines().collect::<Vec<_>>(), ["pid", "count"], "what is denied is not listed");
    assert_eq!(run(&["call", "shell", "env"]).await.stdout.trim(), "hunter2");
    assert_eq!(run(&["call", "shell", "count", "{}"]).await.stdout.trim(), "1");
    let answer: Value =
        serde_json::from_str(&run(&["call", "shell", "count", "--json"]).await.stdout).unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], "2");
    assert_eq!(answer["error"], Value::Null);

    assert_eq!(run(&["call", "shell", "crash"]).await.code, Some(4), "it is denied");
    assert_eq!(run(&["call", "shell", "nothing"]).await.code, Some(1), "the server's own refusal");
    assert_eq!(run(&["call", "nobody", "x"]).await.code, Some(3));
    assert_eq!(run(&["call", "shell", "count", "[1]"]).await.code, Some(2));
    assert_eq!(run(&["add", "shell", "--", "true"]).await.code, Some(1), "the name is taken");

    let logs = run(&["logs", "shell"]).await.stdout;
    assert!(logs.contains("started with"), "{logs}");
    let pid = run(&["call", "shell", "pid"]).await.stdout;
    assert_eq!(run(&["restart", "shell"]).await.stdout.trim(), "shell is ok");
    assert_ne!(run(&["call", "shell", "pid"]).await.stdout, pid);
    let details: Value = serde_json::from_str(&run(&["get", "shell", "--json"]).await.stdout).unwrap();
    assert_eq!((&details["health"], &details["restart_count"]), (&json!("ok"), &json!(0)));

    // What was called is written down, and with what is not.
    let audit = ListAudit { tool: Some("mcp_call".to_owned()), ..ListAudit::default() };
    let entries = control.client().audit(&audit).await.unwrap().items;
    assert!(
        entries.iter().any(|entry| entry.summary.get("tool").is_some_and(|tool| tool == "env") && entry.outcome == "ok"),
        "{entries:?}"
    );
    assert!(!format!("{entries:?}").contains("hunter2"));

    assert_eq!(run(&["rm", "shell"]).await.stdout.trim(), "shell");
    assert_eq!(run(&["list"]).await.stdout.trim(), "there are no MCP servers");
    control.finish().await;
}
