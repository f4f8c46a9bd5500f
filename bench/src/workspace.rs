//! A workspace, as a client of the API uses it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::http::{Connection, Endpoint};

const WORKSPACES: &str = "/api/v1/agent/workspaces";
pub(crate) const MCP_SERVERS: &str = "/api/v1/mcp/servers";

/// A workspace and a connection that is used for it alone.
pub(crate) struct Workspace {
    connection: Connection,
    id: String,
}

impl Workspace {
    /// Asks for a workspace and waits until it is ready.
    pub(crate) async fn create(endpoint: &Endpoint) -> Result<Self> {
        Self::create_on(endpoint, "local").await
    }

    /// The same with another provider.
    pub(crate) async fn create_on(endpoint: &Endpoint, provider: &str) -> Result<Self> {
        let mut connection = Connection::open(endpoint).await?;
        let request = json!({"provider": provider, "network": "isolated"});
        let created = connection.call(Method::POST, WORKSPACES, Some(&request)).await?.json()?;
        let id = created["id"].as_str().context("the created workspace has no id")?.to_owned();
        Ok(Self { connection, id })
    }

    /// Asks for whatever is the default here, out of a pool or not.
    pub(crate) async fn create_default(endpoint: &Endpoint, warm_start: bool) -> Result<Self> {
        let mut connection = Connection::open(endpoint).await?;
        let request = json!({"warm_start": warm_start});
        let created = connection.call(Method::POST, WORKSPACES, Some(&request)).await?.json()?;
        let id = created["id"].as_str().context("the created workspace has no id")?.to_owned();
        Ok(Self { connection, id })
    }

    /// The same workspace over another connection.
    pub(crate) async fn open(endpoint: &Endpoint, id: &str) -> Result<Self> {
        Ok(Self { connection: Connection::open(endpoint).await?, id: id.to_owned() })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Uses a tool.
    pub(crate) async fn post(&mut self, verb: &str, body: &Value) -> Result<Value> {
        let path = format!("{WORKSPACES}/{}/{verb}", self.id);
        self.connection.call(Method::POST, &path, Some(body)).await?.json()
    }

    /// Runs a command that must succeed, and gives what it printed.
    pub(crate) async fn bash(&mut self, command: &str) -> Result<String> {
        let answer = self.post("bash", &json!({"command": command, "timeout_ms": 120_000})).await?;
        ensure!(answer["exit_code"] == 0, "`{command}` failed: {answer}");
        Ok(answer["stdout"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) async fn read(&mut self, path: &str) -> Result<()> {
        self.post("read", &json!({"file_path": path})).await.map(drop)
    }

    pub(crate) async fn write(&mut self, path: &str, content: &str) -> Result<()> {
        self.post("write", &json!({"file_path": path, "content": content})).await.map(drop)
    }

    /// Uploads a file.
    pub(crate) async fn upload(&mut self, path: &str, content: bytes::Bytes) -> Result<()> {
        let path = format!("{WORKSPACES}/{}/files?path={path}", self.id);
        self.connection.put(&path, content).await?.json().map(drop)
    }

    /// Downloads a file, and gives its length.
    pub(crate) async fn download(&mut self, path: &str) -> Result<u64> {
        self.connection.drain(&format!("{WORKSPACES}/{}/files?path={path}", self.id)).await
    }

    pub(crate) async fn stop(&mut self) -> Result<()> {
        self.post("stop", &json!({})).await.map(drop)
    }

    pub(crate) async fn resume(&mut self) -> Result<()> {
        self.post("resume", &json!({})).await.map(drop)
    }

    pub(crate) async fn destroy(mut self) -> Result<()> {
        let path = format!("{WORKSPACES}/{}", self.id);
        self.connection.call(Method::DELETE, &path, None).await?.json().map(drop)
    }
}

/// Destroys every workspace of a server, and every MCP server.
pub(crate) async fn destroy_all(endpoint: &Endpoint) -> Result<()> {
    let mut connection = Connection::open(endpoint).await?;
    let hosted = connection.call(Method::GET, MCP_SERVERS, None).await?.json()?;
    for name in hosted["items"].as_array().into_iter().flatten().filter_map(|server| server["name"].as_str())
    {
        connection.call(Method::DELETE, &format!("{MCP_SERVERS}/{name}"), None).await?.json()?;
    }
    loop {
        let page = format!("{WORKSPACES}?limit=500");
        let listed = connection.call(Method::GET, &page, None).await?.json()?;
        let ids: Vec<_> =
            listed["items"].as_array().into_iter().flatten().filter_map(|w| w["id"].as_str()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        for id in ids {
            let path = format!("{WORKSPACES}/{id}");
            connection.call(Method::DELETE, &path, None).await?.json()?;
        }
    }
}

/// Repeats a call until it succeeds.
pub(crate) async fn until_it_works<T>(limit: Duration, call: impl AsyncFn() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        match call().await {
            Err(_) if Instant::now() < deadline => tokio::time::sleep(Duration::from_millis(1)).await,
            result => return result,
        }
    }
}
