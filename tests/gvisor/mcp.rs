//! MCP servers from npm and PyPI under gVisor: from images whose own program they are, and by their commands.

use std::time::Duration;

use emergent_test_support::{TEST_IMAGE, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::host::Host;
use emergent_e2e::packages::{node, node_folder, python_folder};

const SERVERS: &str = "/api/v1/mcp/servers";

/// The registration of the founding design, as it is printed there.
const SEED_REGISTRATION: &str = r#"{
  "container_type": "mcp_server",
  "name": "langfuse-mcp",
  "image": "emergent/mcp-langfuse:latest",
  "provider": "gvisor",
  "lifecycle": "persistent",
  "stdio_bridge": true,
  "restart_policy": "always",
  "resource_limits": {
    "cpu": "0.5",
    "memory": "512M"
  },
  "environment": {
    "LANGFUSE_API_KEY": "..."
  }
}"#;

/// The call of the founding design, as it is printed there.
const SEED_CALL: &str = r#"{
  "method": "tools/call",
  "params": {
    "name": "get-traces",
    "arguments": {
      "project_id": "abc"
    }
  }
}"#;

/// Proves: GVIS-15, GVIS-16, LIFE-06, LIFE-07, DESIGN-5.1, DESIGN-5.2, DESIGN-5.7, DESIGN-5.8, DESIGN-5.9
/// Proves: DESIGN-10.12, DESIGN-10.16, DESIGN-10.19, DESIGN-10.22, CONSTRAINT-5, GOAL-2, GOAL-8
#[tokio::test]
async fn servers_from_images_run_under_gvisor() {
    let mut host = Host::start().await;
    make_images(&host);
    let langfuse = register(&host, SEED_REGISTRATION).await;
    let answer =
        host.call(Method::POST, &format!("{SERVERS}/langfuse-mcp/call"), Some(&parse(SEED_CALL))).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(
        answer.body.to_string().contains("get-traces not found"),
        "the program's own word: {}",
        answer.body
    );
    let echo = call(&host, "langfuse-mcp", "echo", json!({"message": "hello"})).await.unwrap();
    assert_eq!(echo, "Echo: hello");
    let environment = call(&host, "langfuse-mcp", "get-env", json!({})).await.unwrap();
    assert!(environment.contains("LANGFUSE_API_KEY"), "{environment}");

    // Nobody says where, and it is under gVisor.
    let memory = register(
        &host,
        r#"{"name": "memory", "image": "emergent/mcp-memory:latest", "network": "internet",
            "environment": {"MEMORY_FILE_PATH": "/data/memory.json"},
            "volumes": [{"name": "memories", "target": "/data", "size": "64M"}]}"#,
    )
    .await;
    let kernel = host.bash(&memory, "dmesg 2>/dev/null || cat /proc/version").await;
    assert!(kernel.to_lowercase().contains("gvisor"), "{kernel}");
    // Its bridge is the only way in: nothing is published, and whoever is on the same network does not reach it.
    for server in [&langfuse, &memory] {
        let inspected = inspect(&host, server);
        assert!(is_empty(&inspected["HostConfig"]["PortBindings"]), "{inspected}");
        assert!(!inspected.to_string().contains("MEMORY_FILE_PATH"), "an environment that others can see");
    }
    assert_eq!(host.bash(&langfuse, "grep -c : /proc/net/dev").await, "1", "loopback alone");
    let neighbour = host.create(json!({"provider": "gvisor", "network": "internet"})).await;
    let networks = inspect(&host, &memory)["NetworkSettings"]["Networks"].clone();
    let address =
        networks.as_object().unwrap().values().next().unwrap()["IPAddress"].as_str().unwrap().to_owned();
    let listen =
        "/opt/node -e 'require(\"net\").createServer((c) => c.end()).listen(8000)' > /dev/null 2>&1 &";
    host.bash(&memory, listen).await;
    let reach =
        format!("timeout 3 bash -c '< /dev/tcp/{address}/8000' 2> /dev/null && echo reached || echo nobody");
    eventually("it listens", Duration::from_secs(20), async || {
        (host.bash(&memory, &reach).await == "reached").then_some(())
    })
    .await;
    assert_eq!(host.bash(&neighbour, &reach).await, "nobody");
    host.destroy(&neighbour).await;

    let entity = json!({"entities": [{"name": "tea", "entityType": "drink", "observations": ["hot"]}]});
    call(&host, "memory", "create_entities", entity).await.unwrap();
    host.bash(&memory, "kill -9 $(grep -l '[s]erver-memory' /proc/[0-9]*/cmdline | cut -d/ -f3)").await;
    assert!(graph_soon(&host).await.contains("tea"));
    host.server.kill();
    host.server.start_again().await;
    assert!(graph_soon(&host).await.contains("tea"), "its volume outlives it");
    for name in ["langfuse-mcp", "memory"] {
        let gone = host.call(Method::DELETE, &format!("{SERVERS}/{name}?volumes=true"), None).await;
        assert_eq!(gone.status, 200, "{}", gone.body);
    }
    host.finish().await;
}

/// Proves: GVIS-16, GOAL-2
#[tokio::test]
async fn the_well_known_servers_run_under_gvisor() {
    let host = Host::start().await;
    let container = host.docker(&["create", TEST_IMAGE, "true"]);
    let container = container.trim();
    let copy = |from: &str, to: &str| host.docker(&["cp", from, &format!("{container}:{to}")]);
    copy(&node().to_string_lossy(), "/opt/node");
    copy(&node_folder("servers").to_string_lossy(), "/opt/servers");
    for package in ["mcp-server-time", "mcp-server-git"] {
        copy(&python_folder(package).to_string_lossy(), &format!("/opt/{package}"));
    }
    host.docker(&["commit", container, "emergent/mcp-well-known:latest"]);
    host.docker(&["rm", container]);
    let filesystem = "/opt/servers/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js";
    let git = "git init -q /workspace && touch /workspace/new.txt && \
               exec /opt/mcp-server-git/bin/python -m mcp_server_git --repository /workspace";
    let time = ["/opt/mcp-server-time/bin/python", "-m", "mcp_server_time", "--local-timezone", "UTC"];
    for (name, command) in [
        ("filesystem", json!(["/opt/node", filesystem, "/workspace"])),
        ("git", json!(["sh", "-c", git])),
        ("time", json!(time)),
    ] {
        let registration = json!({
            "name": name, "image": "emergent/mcp-well-known:latest", "provider": "gvisor", "command": command,
            "resource_limits": {"cpu": "1"},
        });
        register(&host, &registration.to_string()).await;
    }
    let written = json!({"path": "/workspace/a.txt", "content": "kept"});
    call(&host, "filesystem", "write_file", written).await.unwrap();
    let read =
        call(&host, "filesystem", "read_text_file", json!({"path": "/workspace/a.txt"})).await.unwrap();
    assert_eq!(read, "kept");
    let status = call(&host, "git", "git_status", json!({"repo_path": "/workspace"})).await.unwrap();
    assert!(status.contains("new.txt"), "{status}");
    let noon = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let tokyo = call(&host, "time", "convert_time", noon).await.unwrap();
    assert!(tokyo.contains("21:00"), "{tokyo}");
    for name in ["filesystem", "git", "time"] {
        let gone = host.call(Method::DELETE, &format!("{SERVERS}/{name}"), None).await;
        assert_eq!(gone.status, 200, "{}", gone.body);
    }
    host.finish().await;
}

/// Two images with the same packages and another program each.
fn make_images(host: &Host) {
    let container = host.docker(&["create", TEST_IMAGE, "true"]);
    let container = container.trim();
    let copy = |from: &str, to: &str| host.docker(&["cp", from, &format!("{container}:{to}")]);
    copy(&node().to_string_lossy(), "/opt/node");
    copy(&node_folder("servers").to_string_lossy(), "/opt/servers");
    for (image, package) in [("mcp-langfuse", "server-everything"), ("mcp-memory", "server-memory")] {
        let script = format!("/opt/servers/node_modules/@modelcontextprotocol/{package}/dist/index.js");
        let change = format!(r#"CMD ["/opt/node", "{script}"]"#);
        host.docker(&["commit", "--change", &change, container, &format!("emergent/{image}:latest")]);
    }
    host.docker(&["rm", container]);
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// What Docker says of its container.
fn inspect(host: &Host, server: &Value) -> Value {
    let label = format!("label=emergent.workspace={}", server["id"].as_str().unwrap());
    let container = host.docker(&["ps", "-q", "--filter", &label]);
    parse(&host.docker(&["inspect", container.trim()]))[0].clone()
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_none_or(serde_json::Map::is_empty)
}

async fn register(host: &Host, body: &str) -> Value {
    let made = host.call(Method::POST, SERVERS, Some(&parse(body))).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let name = made.body["name"].as_str().unwrap();
    // Starting Node under gVisor with half a processor takes its time.
    let (server, _) = eventually(&format!("{name} is ready"), Duration::from_secs(60), async || {
        let server = host.get(&format!("{SERVERS}/{name}")).await;
        (server["health"] == "ok").then_some(server)
    })
    .await;
    assert_eq!((&server["provider"], &server["isolation"]), (&json!("gvisor"), &json!("gvisor")));
    assert_eq!((&server["status"], &server["expires_at"]), (&json!("ready"), &Value::Null));
    server
}

/// The text that a tool answers.
async fn call(host: &Host, server: &str, tool: &str, arguments: Value) -> Option<String> {
    let body = json!({"method": "tools/call", "params": {"name": tool, "arguments": arguments}});
    let answer = host.call(Method::POST, &format!("{SERVERS}/{server}/call"), Some(&body)).await;
    Some(answer.body["result"]["content"][0]["text"].as_str()?.to_owned())
}

async fn graph_soon(host: &Host) -> String {
    eventually("the memory answers", Duration::from_secs(60), async || {
        call(host, "memory", "read_graph", json!({})).await
    })
    .await
    .0
}
