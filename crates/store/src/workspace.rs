//! A workspace, as it is kept.

use emergent_types::{
    ContainerType, DeploymentMode, DiskEnforcement, IsolationLevel, Lifecycle, NamedDemands, NetworkMode,
    Persistence, ProviderChoice, ProviderKind, ResourceLimits, WorkspaceId, WorkspaceStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{Environment, McpServerRow, Operation, Repository, TokenId};

/// An agent workspace or a hosted MCP server.
///
/// Times are kept to the millisecond, in UTC; [`now`](crate::now) gives one that survives
/// being written unchanged.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkspaceRow {
    /// Names it, here and on every host.
    pub id: WorkspaceId,
    /// The agent session it is attached to.
    pub agent_session_id: Option<Uuid>,
    /// A place for an agent, or an MCP server.
    pub container_type: ContainerType,
    /// Who makes, or has made, the sandbox.
    pub provider: ProviderKind,
    /// The provider's own name for the sandbox; the workspace's id until the provider has
    /// answered.
    pub provider_workspace_id: String,
    /// The repository that is checked out.
    pub repository_url: Option<String>,
    /// The branch that is checked out.
    pub branch: Option<String>,
    /// Where automatic selection may place it.
    pub deployment_mode: DeploymentMode,
    /// Whether it expires.
    pub lifecycle: Lifecycle,
    /// Where it is in its life.
    pub status: WorkspaceStatus,
    /// When it was asked for.
    pub created_at: OffsetDateTime,
    /// When a tool was last used in it.
    pub last_used_at: OffsetDateTime,
    /// When it ends if it is not used; `None` is never, and the only value for a persistent one.
    pub expires_at: Option<OffsetDateTime>,
    /// What it may use.
    pub resource_limits: ResourceLimits,
    /// Which of its demands the request named; `None` where that was not written down yet.
    pub named_demands: Option<NamedDemands>,
    /// The snapshot it was made from.
    pub snapshot_id: Option<String>,
    /// How a hosted MCP server is run; `None` for an agent's workspace.
    pub mcp_config: Option<Map<String, Value>>,
    /// Whatever whoever asked for it wants to remember.
    pub metadata: Map<String, Value>,
    /// What the request said about the provider.
    pub requested_provider: ProviderChoice,
    /// The weakest isolation it may ever have.
    pub min_isolation: IsolationLevel,
    /// What it can reach.
    pub network: NetworkMode,
    /// The image it was asked to start from.
    pub base_image: Option<String>,
    /// How long it lives after its last use, in seconds; `None` where it does not expire.
    pub ttl_seconds: Option<u32>,
    /// Environment variables of everything that runs in it. Sealed in the database.
    pub environment: Environment,
    /// The token it belongs to; `None` where the installation itself made it.
    pub owner_id: Option<TokenId>,
    /// The isolation it really has, once there is a sandbox.
    pub isolation: Option<IsolationLevel>,
    /// What stop and resume keep, once there is a sandbox.
    pub persistence: Option<Persistence>,
    /// How the disk limit is upheld, once there is a sandbox.
    pub disk_enforcement: Option<DiskEnforcement>,
    /// The providers that were tried, in order.
    pub attempts: Vec<AttemptRecord>,
    /// What its user should know.
    pub warnings: Vec<String>,
    /// Why it failed.
    pub error: Option<WorkspaceError>,
    /// How often it was resumed after its sandbox was lost, since it last worked.
    pub resume_attempts: u32,
    /// Whether whoever asked for it was answered before there was a sandbox. If so, a create
    /// that a crash cut off is begun again; if not, whoever waited has seen the connection
    /// break and may ask again, so it is removed.
    pub acknowledged: bool,
    /// The pool it waits in until somebody gets it; `None` for what is somebody's.
    pub warm_pool: Option<String>,
    /// Its repositories: those it was asked for with, and those that came later.
    pub repositories: Vec<Repository>,
}

impl WorkspaceRow {
    /// Whether this row takes one of the places that the concurrency limit hands out. Hosted
    /// MCP servers and members of a pool never do.
    pub fn takes_a_place(&self) -> bool {
        self.container_type == ContainerType::AgentWorkspace
            && self.status.counts_as_active()
            && self.warm_pool.is_none()
    }
}

/// What a row is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewOrMember<'a> {
    /// What does not exist yet.
    New,
    /// The sandbox of an MCP server, which is registered with it.
    Server(&'a McpServerRow),
    /// What waits in a pool, and goes out of it.
    Member,
}

impl NewOrMember<'_> {
    pub(crate) fn operation(self, id: WorkspaceId) -> Operation {
        match self {
            Self::New | Self::Server(_) => Operation::InsertWorkspace(id),
            Self::Member => Operation::ClaimMember(id),
        }
    }
}

/// One provider that was asked for a sandbox, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// Who was asked.
    pub provider: ProviderKind,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    pub started_at: OffsetDateTime,
    /// How long it took.
    pub duration_ms: u64,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: AttemptOutcome,
}

/// What came of asking a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// There is a sandbox.
    Succeeded,
    /// There is none.
    Failed {
        /// For people.
        reason: String,
    },
}

/// Why a workspace failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceError {
    /// For programs; stable.
    pub code: String,
    /// For people.
    pub message: String,
}
