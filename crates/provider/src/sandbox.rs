//! What is asked of a provider, and what it reports.

use std::fmt;

use emergent_agent_client::AgentKey;
use emergent_types::{
    DiskEnforcement, IsolationLevel, NetworkMode, Persistence, ResourceLimits, WorkspaceId,
};
use serde::{Deserialize, Serialize};

/// A sandbox to be made. Total: every default has been filled in.
#[derive(Debug, Clone)]
pub struct SandboxSpec {
    /// Names the sandbox and everything that belongs to it.
    pub id: WorkspaceId,
    /// What it may use.
    pub limits: ResourceLimits,
    /// What it may reach.
    pub network: NetworkMode,
    /// The image to start from; `None` is the provider's own default.
    pub base_image: Option<String>,
    /// What the control plane will prove itself with to the agent.
    pub agent_key: AgentKey,
}

/// A sandbox whose agent can be connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// The provider's own name for it.
    pub provider_id: String,
    /// The level it really has.
    pub isolation: IsolationLevel,
    /// The network it really has.
    pub network: NetworkMode,
    /// What stop and resume keep.
    pub persistence: Persistence,
    /// How the disk limit is upheld.
    pub disk_enforcement: DiskEnforcement,
    /// What the user should know (reduced isolation, a limit that is not enforced).
    pub warnings: Vec<String>,
}

/// What exists on a host for one id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedSandbox {
    /// Whose it is.
    pub id: WorkspaceId,
    /// What is there.
    pub state: ObservedState,
}

/// How much of a sandbox is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservedState {
    /// Init runs; the agent can be connected to.
    Running,
    /// The disk is whole and nothing runs.
    Stopped,
    /// Remains of a create or destroy that did not finish.
    Partial,
}

/// Whether a provider is expected to work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Creates are expected to succeed.
    Healthy,
    /// They are not, for this reason.
    Unhealthy {
        /// For people: what is missing and how to get it.
        reason: String,
    },
}

impl Health {
    /// Whether creates are expected to succeed.
    pub fn is_healthy(&self) -> bool {
        matches!(self, Self::Healthy)
    }
}

/// Names a snapshot within its provider.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SnapshotId(pub String);

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
