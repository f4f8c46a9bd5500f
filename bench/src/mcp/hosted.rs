//! An MCP server that the product hosts.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::echo_call;
use crate::http::{Connection, Endpoint};
use crate::workspace::{MCP_SERVERS, Workspace};

/// How long a program may take until it answers, in tenths of a second.
const PATIENCE: u32 = 600;

/// A registered server; [`destroy_all`](crate::workspace::destroy_all) removes it.
pub(crate) struct Hosted {
    endpoint: Endpoint,
    connection: Connection,
    name: String,
    id: String,
}

impl Hosted {
    /// Registers a server with these fields beside its name.
    pub(crate) async fn register(endpoint: &Endpoint, name: &str, mut fields: Value) -> Result<Self> {
        let mut connection = Connection::open(endpoint).await?;
        fields["name"] = json!(name);
        fields["network"] = json!("isolated");
        let made = connection.call(Method::POST, MCP_SERVERS, Some(&fields)).await?.json()?;
        let id = made["id"].as_str().context("it has no id")?.to_owned();
        Ok(Self { endpoint: endpoint.clone(), connection, name: name.to_owned(), id })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Where MCP clients connect.
    pub(crate) fn path(&self) -> String {
        format!("{MCP_SERVERS}/{}/mcp", self.name)
    }

    /// Puts a program into its sandbox.
    pub(crate) async fn upload(&self, program: &Path, to: &str) -> Result<()> {
        let mut sandbox = Workspace::open(&self.endpoint, &self.id).await?;
        sandbox.upload(to, Bytes::from(std::fs::read(program)?)).await?;
        sandbox.bash(&format!("chmod 755 {to}")).await.map(drop)
    }

    /// Puts a folder into its sandbox.
    pub(crate) async fn upload_folder(&self, folder: &Path, to: &str) -> Result<()> {
        let tar = Command::new("tar")
            .args(["-cf", "-", "-C"])
            .arg(folder)
            .arg(".")
            .stdin(Stdio::null())
            .output()?;
        ensure!(tar.status.success(), "tar: {}", String::from_utf8_lossy(&tar.stderr));
        let mut sandbox = Workspace::open(&self.endpoint, &self.id).await?;
        sandbox.upload("archive.tar", Bytes::from(tar.stdout)).await?;
        sandbox.bash(&format!("mkdir {to} && tar -xf archive.tar -C {to} && rm archive.tar")).await.map(drop)
    }

    /// Starts its program anew, and waits until it answers.
    pub(crate) async fn restart(&mut self) -> Result<()> {
        let path = format!("{MCP_SERVERS}/{}/restart", self.name);
        self.connection.call(Method::POST, &path, None).await?.json()?;
        self.ready().await
    }

    pub(crate) async fn ready(&mut self) -> Result<()> {
        let path = format!("{MCP_SERVERS}/{}", self.name);
        for _ in 0..PATIENCE {
            let state = self.connection.call(Method::GET, &path, None).await?.json()?;
            if state["health"] == "ok" {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("{} does not come to answer", self.name)
    }

    /// One call over the plain endpoint.
    pub(crate) async fn call(&mut self, number: usize) -> Result<()> {
        let path = format!("{MCP_SERVERS}/{}/call", self.name);
        let call = echo_call(number);
        let body = json!({"method": call["method"], "params": call["params"]});
        let answer = self.connection.call(Method::POST, &path, Some(&body)).await?.json()?;
        let expected = format!("Echo: call {number}");
        ensure!(answer["result"]["content"][0]["text"] == expected, "not the answer of {number}: {answer}");
        Ok(())
    }
}
