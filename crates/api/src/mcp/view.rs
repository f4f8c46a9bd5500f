//! A hosted MCP server, as clients see it.

use emergent_mcp_hosting::{BridgeState, Crash, ServerView, VolumeMount};
use emergent_types::{ByteSize, RestartPolicy, ServerHealth, ServerMode};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::auth::Caller;
use crate::workspaces::view::Workspace;

/// A hosted MCP server: what is known of its sandbox, and of itself.
#[derive(Serialize, ToSchema)]
pub(crate) struct McpServer {
    #[serde(flatten)]
    sandbox: Workspace,
    /// Names it in every other call, as its id does.
    name: String,
    /// The image that its sandbox started from.
    #[schema(required = true)]
    image: Option<String>,
    /// The program and its arguments; null is what the image's author wants to be run.
    #[schema(required = true)]
    command: Option<Vec<String>>,
    /// Whether it speaks through its standard streams.
    stdio_bridge: bool,
    /// Where it listens, if it does not.
    #[schema(required = true)]
    port: Option<u16>,
    /// Where it is spoken to there; null is `/mcp`.
    #[schema(required = true)]
    path: Option<String>,
    /// Who shares its program.
    mode: ServerMode,
    /// Whether it gets one call at a time.
    serialize: bool,
    /// What happens when its program ends.
    restart_policy: RestartPolicy,
    /// The tools that may be used; null is all.
    #[schema(required = true)]
    tools_allow: Option<Vec<String>>,
    /// The tools that may not be used.
    tools_deny: Vec<String>,
    /// How long a call may take.
    call_timeout_ms: u32,
    /// Volumes that outlive its sandbox.
    volumes: Vec<Volume>,
    /// The names of its environment variables. Their values are never shown.
    environment_names: Vec<String>,
    /// How it is.
    health: ServerHealth,
    /// Starts that nobody asked for, since somebody last did.
    restart_count: u32,
    /// How its program last ended without being told to.
    #[schema(required = true)]
    last_crash: Option<McpCrash>,
    /// How long its program runs; null where it does not.
    #[schema(required = true)]
    uptime_seconds: Option<u64>,
    /// When its program is started again.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schema(required = true)]
    next_start_at: Option<OffsetDateTime>,
    /// The way to its program.
    bridge: McpBridge,
    /// When its registration was last changed.
    #[serde(with = "time::serde::rfc3339")]
    updated_at: OffsetDateTime,
}

/// A volume that outlives the sandbox.
#[derive(Serialize, ToSchema)]
#[schema(as = McpVolume)]
struct Volume {
    /// Its name within the installation.
    name: String,
    /// Where it is in the sandbox.
    target: String,
    /// How large it was made, unless it was there before.
    size: ByteSize,
}

/// How a program ended that nobody had told to.
#[derive(Serialize, ToSchema)]
struct McpCrash {
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    at: OffsetDateTime,
    /// What happened.
    reason: String,
    /// Its exit code; null where it never ran.
    #[schema(required = true)]
    exit_code: Option<i32>,
    /// The signal that ended it.
    #[schema(required = true)]
    signal: Option<u32>,
    /// The last lines it wrote to stderr. Only for those who may read its logs.
    stderr: Vec<String>,
}

/// The way to a program.
#[derive(Serialize, ToSchema)]
struct McpBridge {
    /// `none`, `starting`, `ready` or `ended`.
    #[schema(example = "ready")]
    state: &'static str,
    /// `modern` (2026-07-28) or `legacy`; null until the server said.
    #[schema(required = true)]
    era: Option<&'static str>,
    /// Clients that are connected.
    clients: usize,
    /// Why it ended.
    #[schema(required = true)]
    reason: Option<String>,
}

impl McpServer {
    /// As this caller may see it.
    pub(super) fn shown(view: ServerView, caller: &Caller) -> Self {
        let server = view.server;
        let now = emergent_store::now();
        let crash = |crash: Crash| McpCrash {
            at: crash.at,
            reason: crash.reason,
            exit_code: crash.exit_code,
            signal: crash.signal,
            stderr: if caller.sees_all() { crash.stderr } else { Vec::new() },
        };
        Self {
            sandbox: view.workspace.into(),
            environment_names: server.environment.names().map(str::to_owned).collect(),
            name: server.name,
            image: server.image,
            command: server.command,
            stdio_bridge: server.stdio_bridge,
            port: server.port,
            path: server.path,
            mode: server.mode,
            serialize: server.serialize,
            restart_policy: server.restart_policy,
            tools_allow: server.tools_allow,
            tools_deny: server.tools_deny,
            call_timeout_ms: server.call_timeout_ms,
            volumes: view.volumes.iter().map(Volume::from).collect(),
            health: view.health,
            restart_count: view.restart_count,
            last_crash: view.last_crash.map(crash),
            uptime_seconds: view.up_since.map(|since| (now - since).whole_seconds().unsigned_abs()),
            next_start_at: view.next_start,
            bridge: view.bridge.into(),
            updated_at: server.updated_at,
        }
    }
}

impl From<&VolumeMount> for Volume {
    fn from(volume: &VolumeMount) -> Self {
        Self { name: volume.name().to_string(), target: volume.target().to_owned(), size: volume.size() }
    }
}

impl From<BridgeState> for McpBridge {
    fn from(bridge: BridgeState) -> Self {
        let state = bridge.as_str();
        let nothing = Self { state, era: None, clients: 0, reason: None };
        match bridge {
            BridgeState::None | BridgeState::Starting => nothing,
            BridgeState::Ready { era, clients } => Self { era: Some(era), clients, ..nothing },
            BridgeState::Ended { reason } => Self { reason: Some(reason), ..nothing },
        }
    }
}
