//! Hosted MCP servers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use emergent_types::{
    ByteSize, IsolationLevel, NetworkMode, ProviderChoice, RestartPolicy, ServerHealth, ServerMode,
    WorkspaceId,
};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::client::NO_QUERY;
use crate::events::Events;
use crate::{Client, ClientError, RequestedLimits, Workspace};

const SERVERS: &str = "/api/v1/mcp/servers";

/// How much longer than the server to wait for an answer.
const MARGIN: Duration = Duration::from_secs(30);
/// The longest that a call may take where nobody says.
const LONGEST_CALL: Duration = Duration::from_secs(3600);

/// A server to host. Without an image there must be a command.
#[derive(Clone, Default, Serialize)]
pub struct RegisterMcpServer {
    /// Names it.
    pub name: String,
    /// The image that its sandbox starts from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The program and its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Which provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderChoice>,
    /// Whether it speaks through its standard streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdio_bridge: Option<bool>,
    /// Where it listens, if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Where it is spoken to there; `/mcp` where not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What happens when its program ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<RestartPolicy>,
    /// Who shares its program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ServerMode>,
    /// One call at a time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub serialize: bool,
    /// The only tools that may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools_allow: Option<Vec<String>>,
    /// The tools that may not be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools_deny: Vec<String>,
    /// How long a call may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_timeout_ms: Option<u64>,
    /// What it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_limits: Option<RequestedLimits>,
    /// Environment variables of its program.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Volumes that outlive its sandbox.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<RequestedVolume>,
    /// What it can reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkMode>,
    /// Nothing weaker will do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_isolation: Option<IsolationLevel>,
}

/// A volume in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RequestedVolume {
    /// Its name within the installation.
    pub name: String,
    /// Where it is in the sandbox.
    pub target: String,
    /// How large it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<ByteSize>,
}

/// A hosted MCP server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct McpServer {
    /// Where it runs.
    #[serde(flatten)]
    pub sandbox: Workspace,
    /// Names it, as its id does.
    pub name: String,
    /// The image that its sandbox started from.
    pub image: Option<String>,
    /// The program and its arguments.
    pub command: Option<Vec<String>>,
    /// Whether it speaks through its standard streams.
    pub stdio_bridge: bool,
    /// Where it listens, if it does not.
    pub port: Option<u16>,
    /// Where it is spoken to there; `None` is `/mcp`.
    #[serde(default)]
    pub path: Option<String>,
    /// Who shares its program.
    pub mode: ServerMode,
    /// Whether it gets one call at a time.
    pub serialize: bool,
    /// What happens when its program ends.
    pub restart_policy: RestartPolicy,
    /// The tools that may be used.
    pub tools_allow: Option<Vec<String>>,
    /// The tools that may not be used.
    pub tools_deny: Vec<String>,
    /// How long a call may take.
    pub call_timeout_ms: u32,
    /// Volumes that outlive its sandbox.
    pub volumes: Vec<McpVolume>,
    /// The names of its environment variables.
    pub environment_names: Vec<String>,
    /// How it is.
    pub health: ServerHealth,
    /// Starts that nobody asked for, since somebody last did.
    pub restart_count: u32,
    /// How its program last ended without being told to.
    pub last_crash: Option<McpCrash>,
    /// How long its program runs.
    pub uptime_seconds: Option<u64>,
    /// When its program is started again.
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub next_start_at: Option<OffsetDateTime>,
    /// The way to its program.
    pub bridge: McpBridge,
}

/// A volume that outlives a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpVolume {
    /// Its name within the installation.
    pub name: String,
    /// Where it is in the sandbox.
    pub target: String,
    /// How large it was made.
    pub size: ByteSize,
}

/// How a program ended that nobody had told to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpCrash {
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// What happened.
    pub reason: String,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<u32>,
    /// The last lines it wrote to stderr.
    pub stderr: Vec<String>,
}

/// The way to a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpBridge {
    /// `none`, `starting`, `ready` or `ended`.
    pub state: String,
    /// `modern` or `legacy`.
    pub era: Option<String>,
    /// Clients that are connected.
    pub clients: u64,
    /// Why it ended.
    pub reason: Option<String>,
}

/// Hosted MCP servers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct McpServerList {
    /// Oldest first.
    pub items: Vec<McpServer>,
    /// Always null.
    pub next_cursor: Option<String>,
}

/// That a server is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletedMcpServer {
    /// Which.
    pub id: WorkspaceId,
    /// Its name.
    pub name: String,
    /// `deleted`.
    pub status: String,
}

/// What a server answered: `result` or `error`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct McpAnswer {
    /// What came of it.
    pub result: Option<Value>,
    /// The server's own error.
    pub error: Option<Value>,
}

/// Lines of a server's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpLog {
    /// Oldest first.
    pub lines: Vec<McpLogLine>,
    /// Lines before the first of these that were not sent.
    pub missed: u64,
}

/// A line of a server's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpLogLine {
    /// Grows from line to line.
    pub number: u64,
    /// When it was heard.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// `stderr`, `stdout`, `protocol` or `supervisor`.
    pub stream: String,
    /// The text.
    pub text: String,
}

/// A server's log, while it is written.
pub struct McpLogStream(Events);

impl McpLogStream {
    /// The next line; `None` when the server ends the stream.
    pub async fn next(&mut self) -> Result<Option<McpLogLine>, ClientError> {
        let Some(event) = self.0.next().await? else { return Ok(None) };
        self.0.read(&event).map(Some)
    }
}

/// The path of a server. Names are plain; what is not cannot become another path.
fn path(server: &str, rest: &str) -> String {
    let mut path = format!("{SERVERS}/");
    for byte in server.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => path.push(byte.into()),
            // Writing to a string cannot fail.
            _ => drop(write!(path, "%{byte:02X}")),
        }
    }
    path + rest
}

impl Client {
    /// Registers a server and waits until it is known whether its program runs.
    pub async fn register_mcp_server(&self, request: &RegisterMcpServer) -> Result<McpServer, ClientError> {
        self.post(SERVERS, request).await
    }

    /// Every server that the token may use.
    pub async fn mcp_servers(&self) -> Result<McpServerList, ClientError> {
        self.get(SERVERS, &NO_QUERY).await
    }

    /// One server, by name or id.
    pub async fn mcp_server(&self, server: &str) -> Result<McpServer, ClientError> {
        self.get(&path(server, ""), &NO_QUERY).await
    }

    /// Ends a server's program and starts it again.
    pub async fn restart_mcp_server(&self, server: &str) -> Result<McpServer, ClientError> {
        self.post(&path(server, "/restart"), &json!({})).await
    }

    /// Removes a server with its sandbox; its volumes too where that is asked for.
    pub async fn delete_mcp_server(
        &self,
        server: &str,
        with_volumes: bool,
    ) -> Result<DeletedMcpServer, ClientError> {
        self.delete(&path(server, ""), &[("volumes", with_volumes)]).await
    }

    /// Sends one request to a server and waits for its answer.
    pub async fn call_mcp_server(
        &self,
        server: &str,
        method: &str,
        params: Option<&Value>,
        timeout: Option<Duration>,
    ) -> Result<McpAnswer, ClientError> {
        let mut body = json!({"method": method, "params": params});
        if let Some(timeout) = timeout {
            body["timeout_ms"] = json!(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        }
        let limit = timeout.unwrap_or(LONGEST_CALL) + MARGIN;
        self.post_long(&path(server, "/call"), &body, limit).await
    }

    /// The last lines of a server's log.
    pub async fn mcp_server_logs(&self, server: &str, limit: Option<u32>) -> Result<McpLog, ClientError> {
        let query: Vec<_> = limit.map(|limit| ("limit", limit)).into_iter().collect();
        self.get(&path(server, "/logs"), &query).await
    }

    /// The last lines of a server's log, and what comes.
    pub async fn follow_mcp_server_logs(
        &self,
        server: &str,
        limit: Option<u32>,
    ) -> Result<McpLogStream, ClientError> {
        let mut query = vec![("follow", "true".to_owned())];
        query.extend(limit.map(|limit| ("limit", limit.to_string())));
        let get = self.unbounded(Method::GET, &path(server, "/logs")).query(&query);
        self.events(get).await.map(McpLogStream)
    }
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn a_name_stays_one_part_of_the_path() {
        assert_eq!(path("langfuse-mcp", "/call"), "/api/v1/mcp/servers/langfuse-mcp/call");
        assert_eq!(path("../a?b", ""), "/api/v1/mcp/servers/%2E%2E%2Fa%3Fb");
    }
}
