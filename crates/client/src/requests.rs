//! What can be asked for. What is `None` is not sent, and the server's default holds.

use std::collections::BTreeMap;

use emergent_types::{
    ByteSize, ContainerType, Cpu, DeploymentMode, IsolationLevel, NetworkMode, ProviderChoice, ProviderKind,
    WorkspaceStatus,
};
use serde::Serialize;
use serde_json::{Map, Value};

/// A new workspace.
#[derive(Clone, Default, Serialize)]
pub struct CreateWorkspace {
    /// A repository to check out in `/workspace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository_url: Option<String>,
    /// Its branch, tag or commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// How many commits of its history; 0 is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Which provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderChoice>,
    /// Where automatic choice may place it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment_mode: Option<DeploymentMode>,
    /// What it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_limits: Option<RequestedLimits>,
    /// The weakest isolation that will do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_isolation: Option<IsolationLevel>,
    /// Whether a sandbox that was made ahead of time may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_start: Option<bool>,
    /// What it can reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkMode>,
    /// Environment variables of everything that runs in it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The image to start from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_image: Option<String>,
    /// How long it lives after its last use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// Whatever you want to remember.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// Limits of a new workspace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RequestedLimits {
    /// Processor time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    /// Everything it can write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<ByteSize>,
}

/// Which workspaces to list.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ListWorkspaces {
    /// Only those in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<WorkspaceStatus>,
    /// Only those of this type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_type: Option<ContainerType>,
    /// Only those of this provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderKind>,
    /// How many at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A command.
#[derive(Clone, Serialize)]
pub struct BashRequest {
    /// Given to the shell.
    pub command: String,
    /// Where to run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// After this it is killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Environment variables, beside those of the workspace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The account to run it as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

impl BashRequest {
    /// A command with nothing special about it.
    pub fn new(command: impl Into<String>) -> Self {
        Self { command: command.into(), workdir: None, timeout_ms: None, env: BTreeMap::new(), user: None }
    }
}

/// A file or folder to read.
#[derive(Debug, Clone, Serialize)]
pub struct ReadRequest {
    /// Relative paths start at `/workspace`.
    pub file_path: String,
    /// The line to begin with, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// How many lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// A file to write.
#[derive(Clone, Serialize)]
pub struct WriteRequest {
    /// Relative paths start at `/workspace`.
    pub file_path: String,
    /// The new content.
    pub content: String,
}
