//! A hosted MCP server, as it is kept.

use emergent_types::{ProviderChoice, RestartPolicy, ServerMode, WorkspaceId};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::Environment;

/// How a hosted MCP server is run. Where it runs is the [`WorkspaceRow`](crate::WorkspaceRow) of the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerRow {
    /// Its sandbox's id, and so its own.
    pub id: WorkspaceId,
    /// Names it as well; unique.
    pub name: String,
    /// The image that its sandbox starts from.
    pub image: Option<String>,
    /// The program and its arguments; `None` is what the image's author wants to be run.
    pub command: Option<Vec<String>>,
    /// What that is, once there is a sandbox.
    pub image_defaults: Option<Map<String, Value>>,
    /// What the registration said about the provider.
    pub provider: ProviderChoice,
    /// What happens when its program ends.
    pub restart_policy: RestartPolicy,
    /// Who shares its program.
    pub mode: ServerMode,
    /// One call at a time.
    pub serialize: bool,
    /// Whether it speaks through its standard streams.
    pub stdio_bridge: bool,
    /// Where it listens, if it does not.
    pub port: Option<u16>,
    /// Where it is spoken to there; `None` is `/mcp`.
    pub path: Option<String>,
    /// The tools that may be used; `None` is all.
    pub tools_allow: Option<Vec<String>>,
    /// The tools that may not be used, whatever the other list says.
    pub tools_deny: Vec<String>,
    /// How long a call may take.
    pub call_timeout_ms: u32,
    /// Environment variables of its program. Sealed in the database.
    pub environment: Environment,
    /// When it was registered.
    pub created_at: OffsetDateTime,
    /// When its registration was last changed.
    pub updated_at: OffsetDateTime,
}
