//! What a server is registered with, on the wire.

use std::collections::BTreeMap;

use emergent_mcp_hosting::{LimitsRequest, Registration, VolumeRequest};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::extract::Object;

/// An MCP server to host. Every field but `name` may be left out or null; without an `image` there must be a
/// `command`.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RegisterMcpServer {
    /// `mcp_server`, if anything.
    #[schema(example = "mcp_server")]
    container_type: Option<String>,
    /// Names it: 1 to 63 lower-case letters, digits and hyphens; unique.
    #[schema(value_type = String, required = true, example = "langfuse-mcp")]
    name: Option<String>,
    /// The image that its sandbox starts from, where the provider has images.
    #[schema(example = "emergent/mcp-langfuse:latest")]
    image: Option<String>,
    /// The program and its arguments; where not said, what the image's author wants to be run.
    command: Option<Vec<String>>,
    /// The provider to use and no other, or `auto`, which prefers gVisor.
    #[schema(example = "auto")]
    provider: Option<String>,
    /// `persistent`, if anything.
    #[schema(example = "persistent")]
    lifecycle: Option<String>,
    /// Whether it speaks through its standard streams; it does where not said.
    stdio_bridge: Option<bool>,
    /// `always` (where not said), `on-failure` or `never`.
    #[schema(example = "always")]
    restart_policy: Option<String>,
    /// `shared` (where not said): many clients on one process; `dedicated`: a process for each.
    #[schema(example = "shared")]
    mode: Option<String>,
    /// One call at a time.
    serialize: Option<bool>,
    /// The only tools that may be used.
    tools_allow: Option<Vec<String>>,
    /// The tools that may not be used.
    tools_deny: Option<Vec<String>>,
    /// How long a call may take; 30000 where not said.
    #[schema(minimum = 1, maximum = 3_600_000)]
    call_timeout_ms: Option<u64>,
    /// Where it listens, if `stdio_bridge` is false.
    #[schema(minimum = 1, maximum = 65535)]
    port: Option<u64>,
    /// Where it is spoken to there; `/mcp` where not said.
    #[schema(example = "/mcp")]
    path: Option<String>,
    /// What it may use: 0.5 processors, 512M and 1G where not said.
    #[schema(value_type = Option<McpServerLimits>)]
    resource_limits: Option<Object<McpServerLimits>>,
    /// Environment variables of its program. Sealed at rest, and never shown again.
    environment: Option<BTreeMap<String, String>>,
    /// Volumes that outlive its sandbox.
    volumes: Option<Vec<McpServerVolume>>,
    /// What it can reach: `internet` or `isolated`.
    #[schema(example = "isolated")]
    network: Option<String>,
    /// The weakest isolation that will do.
    #[schema(example = "container")]
    min_isolation: Option<String>,
}

/// Limits as far as a registration names them. Sizes are binary.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpServerLimits {
    /// Processors; fractions are allowed.
    #[schema(example = "0.5")]
    cpu: Option<String>,
    /// Memory.
    #[schema(example = "512M")]
    memory: Option<String>,
    /// Everything it can write.
    #[schema(example = "1G")]
    disk: Option<String>,
}

/// A volume of the installation, in its place.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpServerVolume {
    /// Up to 40 lower-case letters, digits and hyphens.
    #[schema(example = "memory-data")]
    name: String,
    /// An absolute path outside the system's own folders.
    #[schema(example = "/data")]
    target: String,
    /// How large it is made if it is not there yet; 1G where not said.
    #[schema(example = "1G")]
    size: Option<String>,
}

impl From<RegisterMcpServer> for Registration {
    fn from(request: RegisterMcpServer) -> Self {
        let limits = request.resource_limits.map(|Object(limits)| limits).unwrap_or_default();
        let volume = |volume: McpServerVolume| VolumeRequest {
            name: volume.name,
            target: volume.target,
            size: volume.size,
        };
        Self {
            name: request.name,
            container_type: request.container_type,
            lifecycle: request.lifecycle,
            image: request.image,
            command: request.command,
            provider: request.provider,
            stdio_bridge: request.stdio_bridge,
            restart_policy: request.restart_policy,
            mode: request.mode,
            serialize: request.serialize,
            tools_allow: request.tools_allow,
            tools_deny: request.tools_deny,
            call_timeout_ms: request.call_timeout_ms,
            port: request.port,
            path: request.path,
            limits: LimitsRequest { cpu: limits.cpu, memory: limits.memory, disk: limits.disk },
            environment: request.environment.unwrap_or_default(),
            volumes: request.volumes.unwrap_or_default().into_iter().map(volume).collect(),
            network: request.network,
            min_isolation: request.min_isolation,
        }
    }
}
