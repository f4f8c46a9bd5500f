//! A workspace that is asked for.

use std::time::Duration;

use emergent_provider::{NamedDemands, VolumeMount};
use emergent_store::{Environment, McpServerRow, Repository, SnapshotRow, TokenId, WorkspaceRow};
use emergent_types::{
    ByteSize, ContainerType, Cpu, DeploymentMode, IsolationLevel, Lifecycle, NetworkMode, ProviderChoice,
    ProviderKind, ResourceLimits, SnapshotId, WorkspaceId, WorkspaceStatus,
};
use serde_json::{Map, Value};

use crate::{Options, volumes};

/// Limits as far as a request names them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestedLimits {
    /// Processor time.
    pub cpu: Option<Cpu>,
    /// Memory.
    pub memory: Option<ByteSize>,
    /// Everything it can write.
    pub disk: Option<ByteSize>,
}

/// A workspace that is asked for. What is `None` is the installation's default.
#[derive(Debug, Clone)]
pub struct NewWorkspace {
    /// What it will be called where a sandbox is made for it; a new id where it does not matter.
    pub id: Option<WorkspaceId>,
    /// Which provider.
    pub provider: ProviderChoice,
    /// Where it may be placed.
    pub deployment_mode: Option<DeploymentMode>,
    /// What it may use.
    pub limits: RequestedLimits,
    /// Nothing weaker will do.
    pub min_isolation: Option<IsolationLevel>,
    /// What it can reach.
    pub network: Option<NetworkMode>,
    /// Given to every command in it.
    pub environment: Environment,
    /// The image to start from.
    pub base_image: Option<String>,
    /// How long it lives after its last use.
    pub ttl: Option<Duration>,
    /// Whatever whoever asks wants to remember.
    pub metadata: Map<String, Value>,
    /// Whose it will be.
    pub owner: Option<TokenId>,
    /// Whether a sandbox that was made before may serve.
    pub warm_start: bool,
    /// What is to be checked out in it, before it is ready.
    pub repositories: Vec<Repository>,
    /// The copy of a disk to start from.
    pub snapshot: Option<SnapshotId>,
    /// The MCP server that is to run in it; `None` for an agent's workspace.
    pub hosted: Option<HostedServer>,
}

/// An MCP server, and what its sandbox has beside its own disk. Both are registered at once.
#[derive(Debug, Clone)]
pub struct HostedServer {
    /// How it is run. Its id becomes the sandbox's.
    pub server: McpServerRow,
    /// Volumes that outlive the sandbox.
    pub volumes: Vec<VolumeMount>,
}

impl Default for NewWorkspace {
    fn default() -> Self {
        Self {
            id: None,
            provider: ProviderChoice::Auto,
            deployment_mode: None,
            limits: RequestedLimits::default(),
            min_isolation: None,
            network: None,
            environment: Environment::default(),
            base_image: None,
            ttl: None,
            metadata: Map::new(),
            owner: None,
            warm_start: true,
            repositories: Vec::new(),
            snapshot: None,
            hosted: None,
        }
    }
}

/// What a request itself names, and must be enforced or refused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    /// What the provider is asked for.
    pub(crate) demands: NamedDemands,
    /// The weakest isolation.
    pub(crate) isolation: bool,
}

impl NewWorkspace {
    /// The same as was asked for when this one was made.
    pub(crate) fn like(row: &WorkspaceRow) -> Self {
        let limits = row.resource_limits;
        let named = row.named_demands.unwrap_or_default();
        Self {
            deployment_mode: Some(row.deployment_mode),
            limits: RequestedLimits {
                cpu: named.cpu.then_some(limits.cpu),
                memory: named.memory.then_some(limits.memory),
                disk: named.disk.then_some(limits.disk),
            },
            min_isolation: Some(row.min_isolation),
            environment: row.environment.clone(),
            ttl: row.ttl_seconds.map(|seconds| Duration::from_secs(seconds.into())),
            metadata: row.metadata.clone(),
            repositories: row.repositories.clone(),
            ..Self::default()
        }
    }

    /// The same from a copy of a disk: what the request does not name is as it was where the copy was made.
    pub(crate) fn with_snapshot(self, snapshot: &SnapshotRow) -> Self {
        let was = snapshot.resource_limits;
        Self {
            provider: ProviderChoice::Explicit(snapshot.provider),
            limits: RequestedLimits {
                cpu: self.limits.cpu.or(Some(was.cpu)),
                memory: self.limits.memory.or(Some(was.memory)),
                disk: self.limits.disk.or(Some(was.disk)),
            },
            network: self.network.or(Some(snapshot.network)),
            base_image: snapshot.base_image.clone(),
            // They are on the disk already.
            repositories: snapshot.repositories.clone(),
            snapshot: Some(snapshot.id),
            ..self
        }
    }

    /// What must be enforced or refused.
    pub(crate) fn named(&self, options: &Options) -> Named {
        let demands = NamedDemands {
            cpu: self.limits.cpu.is_some(),
            memory: self.limits.memory.is_some(),
            disk: self.limits.disk.is_some(),
            network: self.network.is_some(),
        };
        // Where the installation demands more, it is the one who cannot be satisfied.
        let isolation = self.min_isolation.is_some_and(|asked| asked >= options.min_isolation);
        Named { demands, isolation }
    }

    /// The row that records the intent.
    pub(crate) fn to_row(&self, options: &Options, network: NetworkMode, acknowledged: bool) -> WorkspaceRow {
        let hosted = self.hosted.as_ref();
        let id = hosted.map(|hosted| hosted.server.id).or(self.id).unwrap_or_else(WorkspaceId::generate);
        let now = emergent_store::now();
        let ttl = self.ttl.unwrap_or(options.default_ttl);
        // An MCP server stays until it is deleted.
        let ttl_seconds = hosted.is_none().then(|| u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX));
        let (container_type, lifecycle, defaults) = match hosted {
            None => (ContainerType::AgentWorkspace, Lifecycle::Ephemeral, options.default_limits),
            Some(_) => (ContainerType::McpServer, Lifecycle::Persistent, ResourceLimits::MCP_SERVER_DEFAULT),
        };
        WorkspaceRow {
            id,
            agent_session_id: None,
            container_type,
            provider: match self.provider {
                ProviderChoice::Explicit(kind) => kind,
                // Until one has been chosen: where the search ends.
                ProviderChoice::Auto => options.preferred_provider.unwrap_or(ProviderKind::Local),
            },
            provider_workspace_id: id.to_string(),
            repository_url: self.repositories.first().map(|repository| repository.url.clone()),
            branch: self.repositories.first().and_then(|repository| repository.branch.clone()),
            deployment_mode: self.deployment_mode.unwrap_or(options.deployment_mode),
            lifecycle,
            status: WorkspaceStatus::Creating,
            created_at: now,
            last_used_at: now,
            expires_at: ttl_seconds.map(|seconds| now + Duration::from_secs(seconds.into())),
            resource_limits: ResourceLimits {
                cpu: self.limits.cpu.unwrap_or(defaults.cpu),
                memory: self.limits.memory.unwrap_or(defaults.memory),
                disk: self.limits.disk.unwrap_or(defaults.disk),
            },
            named_demands: Some(self.named(options).demands),
            snapshot_id: self.snapshot.map(|id| id.to_string()),
            mcp_config: hosted.map(|hosted| volumes::to_config(&hosted.volumes)),
            metadata: self.metadata.clone(),
            requested_provider: self.provider,
            // A request can demand more than the installation does, never less.
            min_isolation: self
                .min_isolation
                .map_or(options.min_isolation, |asked| asked.max(options.min_isolation)),
            network,
            base_image: self.base_image.clone(),
            ttl_seconds,
            environment: self.environment.clone(),
            owner_id: self.owner,
            isolation: None,
            persistence: None,
            disk_enforcement: None,
            attempts: Vec::new(),
            warnings: Vec::new(),
            error: None,
            resume_attempts: 0,
            acknowledged,
            warm_pool: None,
            repositories: self.repositories.clone(),
        }
    }
}
