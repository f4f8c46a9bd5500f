//! The life of workspaces.

use std::time::Duration;

use emergent_types::{
    Capabilities, ContainerType, DeploymentMode, DiskEnforcement, FreeResources, IsolationLevel, Lifecycle,
    NetworkMode, Persistence, ProviderChoice, ProviderKind, ResourceLimits, SnapshotId, StartupMillis,
    StopMode, WorkspaceId, WorkspaceStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::client::NO_QUERY;
use crate::{Client, ClientError, CreateWorkspace, ListWorkspaces};

/// A workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workspace {
    /// Names it in every other call.
    pub id: WorkspaceId,
    /// Where it is in its life.
    pub status: WorkspaceStatus,
    /// How far its sandbox is, while it is being made and that takes long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// What it is.
    pub container_type: ContainerType,
    /// Who runs it.
    pub provider: ProviderKind,
    /// The isolation it really has, once there is a sandbox.
    pub isolation: Option<IsolationLevel>,
    /// Where automatic choice could place it.
    pub deployment_mode: DeploymentMode,
    /// Whether it expires.
    pub lifecycle: Lifecycle,
    /// The repository that is checked out.
    pub repository_url: Option<String>,
    /// The branch that is checked out.
    pub branch: Option<String>,
    /// How the checkout goes.
    pub checkout: Checkout,
    /// The image it was asked to start from.
    pub base_image: Option<String>,
    /// What it may use.
    pub resource_limits: ResourceLimits,
    /// How the disk limit is upheld, once there is a sandbox.
    pub disk_enforcement: Option<DiskEnforcement>,
    /// What stop and resume keep, once there is a sandbox.
    pub persistence: Option<Persistence>,
    /// What it can reach.
    pub network: NetworkMode,
    /// What the request said about the provider.
    pub requested_provider: ProviderChoice,
    /// The providers that were tried, in order.
    pub attempts: Vec<Attempt>,
    /// What its user should know.
    pub warnings: Vec<String>,
    /// Why it failed.
    pub error: Option<WorkspaceFailure>,
    /// The agent session it is attached to.
    pub agent_session_id: Option<String>,
    /// The snapshot it was made from.
    pub snapshot_id: Option<String>,
    /// When it was asked for.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When a tool was last used in it.
    #[serde(with = "time::serde::rfc3339")]
    pub last_used_at: OffsetDateTime,
    /// When it ends if it is not used; `None` is never.
    #[serde(with = "time::serde::rfc3339::option")]
    pub expires_at: Option<OffsetDateTime>,
    /// What its request wanted remembered.
    pub metadata: Map<String, Value>,
}

/// How the checkout of a repository goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkout {
    /// `none`, `running`, `done` or `failed`.
    pub status: String,
    /// What it is doing.
    pub progress: Option<String>,
    /// The commit that is checked out.
    pub commit: Option<String>,
    /// Why it failed.
    pub reason: Option<String>,
    /// What helps.
    pub hint: Option<String>,
}

/// A provider that was asked for a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Who was asked.
    pub provider: ProviderKind,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    pub started_at: OffsetDateTime,
    /// How long it took.
    pub duration_ms: u64,
    /// `succeeded` or `failed`.
    pub outcome: String,
    /// Why it failed.
    pub reason: Option<String>,
}

/// Why a workspace failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceFailure {
    /// For programs; stable.
    pub code: String,
    /// For people.
    pub message: String,
}

/// A page of workspaces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkspaceList {
    /// Newest first.
    pub items: Vec<Workspace>,
    /// Asks for the next page; `None` on the last one.
    pub next_cursor: Option<String>,
}

/// That a workspace is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestroyedWorkspace {
    /// Which.
    pub id: WorkspaceId,
    /// `destroyed`.
    pub status: String,
    /// The snapshot that was taken first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<SnapshotId>,
    /// What is left of it, where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// The providers of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderList {
    /// Each of them.
    pub providers: Vec<Provider>,
}

/// Somebody who can make sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    /// Which.
    pub name: ProviderKind,
    /// `healthy`, `unhealthy` or `disabled`.
    pub status: String,
    /// Why it does not take part.
    pub reason: Option<String>,
    /// When that was found out.
    #[serde(with = "time::serde::rfc3339::option")]
    pub last_check_at: Option<OffsetDateTime>,
    /// The isolation its sandboxes have.
    pub isolation: IsolationLevel,
    /// How many workspaces it runs now.
    pub active_workspaces: u32,
    /// What the host has left.
    pub resources: Option<FreeResources>,
    /// What it can do; nothing is known where it is not used.
    pub capabilities: Option<Capabilities>,
    /// How long its creates took.
    pub start_ms: Option<StartupMillis>,
}

/// Where workspaces are.
pub(crate) const WORKSPACES: &str = "/api/v1/agent/workspaces";

/// How long a create may take that checks out a repository.
const CHECKOUT_LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

impl Client {
    /// Creates a workspace and waits until it is ready.
    pub async fn create(&self, request: &CreateWorkspace) -> Result<Workspace, ClientError> {
        match request.repository_url {
            Some(_) => self.post_long(WORKSPACES, request, CHECKOUT_LIMIT).await,
            None => self.post(WORKSPACES, request).await,
        }
    }

    /// Begins to create a workspace.
    pub async fn create_without_waiting(&self, request: &CreateWorkspace) -> Result<Workspace, ClientError> {
        self.post(&format!("{WORKSPACES}?wait=false"), request).await
    }

    /// One workspace.
    pub async fn workspace(&self, id: WorkspaceId) -> Result<Workspace, ClientError> {
        self.get(&format!("{WORKSPACES}/{id}"), &NO_QUERY).await
    }

    /// A page of workspaces.
    pub async fn list(&self, request: &ListWorkspaces) -> Result<WorkspaceList, ClientError> {
        self.get(WORKSPACES, request).await
    }

    /// Ends what runs in a workspace and keeps its files.
    pub async fn stop(&self, id: WorkspaceId) -> Result<Workspace, ClientError> {
        self.post(&format!("{WORKSPACES}/{id}/stop"), &Map::new()).await
    }

    /// Lets what runs in a workspace stand still, with its memory, until it is resumed.
    pub async fn suspend(&self, id: WorkspaceId) -> Result<Workspace, ClientError> {
        let body = serde_json::json!({"mode": StopMode::Memory});
        self.post(&format!("{WORKSPACES}/{id}/stop"), &body).await
    }

    /// Starts a stopped workspace again.
    pub async fn resume(&self, id: WorkspaceId) -> Result<Workspace, ClientError> {
        self.post(&format!("{WORKSPACES}/{id}/resume"), &Map::new()).await
    }

    /// Removes a workspace with everything in it.
    pub async fn destroy(&self, id: WorkspaceId) -> Result<DestroyedWorkspace, ClientError> {
        self.delete(&format!("{WORKSPACES}/{id}"), &NO_QUERY).await
    }

    /// The same, also where the server does not have its provider any more.
    pub async fn destroy_forced(&self, id: WorkspaceId) -> Result<DestroyedWorkspace, ClientError> {
        self.delete(&format!("{WORKSPACES}/{id}"), &[("force", "true")]).await
    }

    /// Copies the files of a workspace, and removes it when that is done.
    pub async fn destroy_after_snapshot(&self, id: WorkspaceId) -> Result<DestroyedWorkspace, ClientError> {
        self.delete(&format!("{WORKSPACES}/{id}"), &[("snapshot", "true")]).await
    }

    /// The providers of the installation.
    pub async fn providers(&self) -> Result<ProviderList, ClientError> {
        self.get(&format!("{WORKSPACES}/providers"), &NO_QUERY).await
    }
}
