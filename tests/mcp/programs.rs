//! Servers as everybody uses them, put into sandboxes as a user does it: registered, copied, restarted.

use std::path::Path;
use std::process::Stdio;

use emergent_client::{BashRequest, Client, McpServer, Upload};
use emergent_test_support::TestServer;
use emergent_types::ServerHealth;
use tokio::process::Command;

use emergent_e2e::packages::{node, node_folder, python_folder};

/// A package with a server in it.
pub(crate) enum Program {
    /// Of npm's, with its arguments.
    Node(&'static str, &'static [&'static str]),
    /// Of PyPI's.
    Python(&'static str, &'static [&'static str]),
}

impl Program {
    fn command(&self) -> Vec<String> {
        let (start, arguments) = match self {
            Self::Node(package, arguments) => {
                let script =
                    format!("/workspace/packages/node_modules/@modelcontextprotocol/{package}/dist/index.js");
                (vec!["/workspace/node".to_owned(), script], arguments)
            }
            Self::Python(package, arguments) => {
                let module = package.replace('-', "_");
                (vec!["/workspace/packages/bin/python".to_owned(), "-m".to_owned(), module], arguments)
            }
        };
        start.into_iter().chain(arguments.iter().map(|word| (*word).to_owned())).collect()
    }

    /// Puts it where its command expects it.
    async fn copy(&self, client: &Client, server: &McpServer) {
        match self {
            Self::Node(..) => {
                upload(client, server, &node(), "/workspace/node").await;
                copy_folder(client, server, &node_folder("servers")).await;
            }
            Self::Python(package, _) => copy_folder(client, server, &python_folder(package)).await,
        }
    }
}

/// `emergent mcp add`, `emergent mcp restart`, and between them what takes the program into the sandbox and what it
/// wants to find there.
pub(crate) async fn host(
    control: &TestServer,
    name: &str,
    options: &[&str],
    program: Program,
    prepare: &str,
) -> McpServer {
    let client = control.client();
    let command = program.command();
    let mut words = vec!["mcp", "add", name, "--network", "isolated"];
    words.extend(options);
    words.push("--");
    words.extend(command.iter().map(String::as_str));
    let added = control.command(&words).await;
    assert_eq!(added.code, Some(0), "{added:?}");
    let server = client.mcp_server(name).await.unwrap();
    program.copy(&client, &server).await;
    let prepared = client.bash(server.sandbox.id, &BashRequest::new(prepare)).await.unwrap();
    assert_eq!(prepared.exit_code, 0, "{prepared:?}");
    let restarted = control.command(&["mcp", "restart", name]).await;
    assert_eq!(restarted.code, Some(0), "{restarted:?}");
    let server = client.mcp_server(name).await.unwrap();
    assert_eq!(server.health, ServerHealth::Ok, "{server:?}");
    server
}

/// Puts a program into a sandbox.
pub(crate) async fn upload(client: &Client, server: &McpServer, from: &Path, to: &str) {
    let file = tokio::fs::File::open(from).await.unwrap();
    let upload = Upload { path: to.to_owned(), mode: Some(0o755), size: None };
    client.upload(server.sandbox.id, &upload, file).await.unwrap();
}

/// With its links, which hold Python together.
async fn copy_folder(client: &Client, server: &McpServer, folder: &Path) {
    let mut tar = Command::new("tar")
        .args(["-cf", "-", "--exclude=pip", "-C"])
        .arg(folder)
        .arg(".")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let upload = Upload { path: "/workspace/packages.tar".to_owned(), ..Upload::default() };
    client.upload(server.sandbox.id, &upload, tar.stdout.take().unwrap()).await.unwrap();
    assert!(tar.wait().await.unwrap().success());
    let unpack = "mkdir packages && tar -xf packages.tar -C packages && rm packages.tar";
    let unpacked = client.bash(server.sandbox.id, &BashRequest::new(unpack)).await.unwrap();
    assert_eq!(unpacked.exit_code, 0, "{unpacked:?}");
}
