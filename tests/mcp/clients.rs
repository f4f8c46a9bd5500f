//! MCP clients from npm and PyPI, of both generations, each a process that does what it is told.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use emergent_client::{BashRequest, McpServer};
use emergent_test_support::{TestServer, TestServerOptions, eventually};
use futures::future::join_all;
use futures::join;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::programs::{Program, host};
use crate::support::tool_soon;
use emergent_e2e::packages::{node, node_folder, python_folder};

/// Which client, and the protocol that it must come to agree on with a server of the older era.
const CLIENTS: [(Kind, &str, &str); 6] = [
    (Kind::Python("mcp-1"), "1", "2025-11-25"),
    (Kind::Python("mcp-2"), "auto", "2026-07-28"),
    (Kind::Python("mcp-2"), "legacy", "2025-11-25"),
    (Kind::Node, "1", "2025-11-25"),
    (Kind::Node, "auto", "2026-07-28"),
    (Kind::Node, "legacy", "2025-11-25"),
];

#[derive(Debug, Clone, Copy)]
enum Kind {
    Python(&'static str),
    Node,
}

/// A client's process.
struct RealClient {
    name: String,
    _process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl RealClient {
    fn start(kind: Kind, mode: &str, url: &str, token: &str) -> Self {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("mcp/clients");
        let mut command = match kind {
            Kind::Python(folder) => {
                let mut command = Command::new(python_folder(folder).join("bin/python"));
                command.arg(scripts.join("client.py"));
                command
            }
            Kind::Node => {
                let mut command = Command::new(node());
                command.arg(scripts.join("client.mjs")).arg(node_folder("clients"));
                command
            }
        };
        command.args([url, token, mode]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.kill_on_drop(true).spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let output = BufReader::new(output).lines();
        Self { name: format!("{kind:?} {mode}"), _process: process, input, output }
    }

    async fn tell(&mut self, command: Value) -> Result<Value, String> {
        self.input.write_all(format!("{command}\n").as_bytes()).await.unwrap();
        let line = tokio::time::timeout(Duration::from_secs(60), self.output.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("{}: {command}: no answer", self.name));
        let answer: Value = serde_json::from_str(&line.unwrap().unwrap()).unwrap();
        match answer.get("ok") {
            Some(ok) => Ok(ok.clone()),
            None => Err(answer["error"].as_str().unwrap_or_default().to_owned()),
        }
    }

    async fn must(&mut self, command: Value) -> Value {
        let told = self.tell(command.clone()).await;
        told.unwrap_or_else(|error| panic!("{}: {command}: {error}", self.name))
    }

    async fn echo(&mut self, prefix: &str, nonce: &str) -> Result<(), String> {
        let command = json!({"do": "call", "tool": format!("{prefix}echo"), "arguments": {"message": nonce}});
        let answer = self.tell(command).await?;
        // A client may take an error of the server's for a result.
        if answer["failed"] == true {
            return Err(answer["text"].to_string());
        }
        assert_eq!(answer["text"], format!("Echo: {nonce}"), "{}", self.name);
        Ok(())
    }

    /// Calls until it is answered; says how often it was not.
    async fn echo_soon(&mut self, prefix: &str, nonce: &str) -> usize {
        let mut failed = 0;
        eventually(&format!("{}: an answer", self.name), Duration::from_secs(30), async || {
            let answered = self.echo(prefix, nonce).await;
            failed += usize::from(answered.is_err());
            answered.ok()
        })
        .await;
        failed
    }
}

/// Of which tools a client is told, and how a server's are named.
struct Face {
    path: &'static str,
    prefix: &'static str,
    tools: &'static [&'static str],
}

const FACES: [Face; 2] = [
    Face { path: "/api/v1/mcp/servers/everything/mcp", prefix: "", tools: &["echo", "get-sum"] },
    Face { path: "/api/v1/mcp", prefix: "everything__", tools: &["everything__echo", "time__convert_time"] },
];

/// Proves: DESIGN-5.2, DESIGN-5.5, LIFE-07, LIFE-22, GOAL-2
#[tokio::test]
async fn stock_clients_outlive_the_program_and_connect_anew_after_a_restart() {
    let options = TestServerOptions { same_address: true, ..TestServerOptions::default() };
    let mut control = options.start().await;
    let (everything, _) = join!(
        host(&control, "everything", &[], Program::Node("server-everything", &[]), ":"),
        host(&control, "time", &[], Program::Python("mcp-server-time", &[]), ":"),
    );
    let mut clients: Vec<(RealClient, &Face)> = Vec::new();
    for (kind, mode, version) in CLIENTS {
        for face in &FACES {
            let url = format!("{}{}", control.url(), face.path);
            let mut client = RealClient::start(kind, mode, &url, control.token());
            client.name.push_str(face.path);
            assert_eq!(client.must(json!({"do": "connect"})).await, version, "{}", client.name);
            clients.push((client, face));
        }
    }
    join_all(clients.iter_mut().enumerate().map(async |(number, (client, face))| {
        let tools = client.must(json!({"do": "tools"})).await;
        for tool in face.tools {
            assert!(tools.as_array().unwrap().contains(&json!(tool)), "{}: {tools}", client.name);
        }
        client.echo(face.prefix, &format!("nonce {number}")).await.unwrap();
        let tool = format!("{}trigger-long-running-operation", face.prefix);
        let arguments = json!({"duration": 0.6, "steps": 3});
        let answer = client.must(json!({"do": "call", "tool": tool, "arguments": arguments})).await;
        let steps: Vec<_> = answer["progress"].as_array().unwrap().iter().map(Value::as_f64).collect();
        assert_eq!(steps, [Some(1.0), Some(2.0), Some(3.0)], "{}", client.name);
    }))
    .await;

    kill_program(&control, &everything).await;
    let failed =
        join_all(clients.iter_mut().map(|(client, face)| client.echo_soon(face.prefix, "again"))).await;
    assert!(failed.iter().all(|failures| *failures <= 1), "{failed:?}");

    control.kill();
    control.start_again().await;
    tool_soon(&control.client(), "time", "get_current_time").await;
    join_all(clients.iter_mut().map(async |(client, face)| {
        // Sessions end with the control plane. One of the newer era has none.
        if client.echo(face.prefix, "still there").await.is_err() {
            client.must(json!({"do": "connect"})).await;
        }
        assert!(client.echo_soon(face.prefix, "back").await <= 1, "{}", client.name);
    }))
    .await;
    drop(clients);
    control.finish().await;
}

async fn kill_program(control: &TestServer, server: &McpServer) {
    let kill = BashRequest::new("pkill -9 -f '[s]erver-everything'");
    let killed = control.client().bash(server.sandbox.id, &kill).await.unwrap();
    assert_eq!(killed.exit_code, 0, "{killed:?}");
}
