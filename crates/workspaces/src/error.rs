//! Why something asked of a workspace was not done.

use emergent_agent_client::AgentError;
use emergent_orchestrator::NoProvider;
use emergent_store::StoreError;
use emergent_types::{ProviderKind, SnapshotId, WorkspaceId, WorkspaceStatus};
use uuid::Uuid;

/// A workspace was not created. Nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The concurrency limit is reached.
    #[error(
        "{active} of {max} workspaces are active: wait for one to end, or stop or destroy one that is not needed"
    )]
    LimitReached {
        /// Active now.
        active: u32,
        /// The limit.
        max: u32,
    },
    /// The request names something that cannot be enforced.
    #[error("{field} cannot be enforced here: {reason}")]
    NotEnforceable {
        /// The field of the request.
        field: &'static str,
        /// Why not.
        reason: String,
    },
    /// The image that the request names is not there and could not be got.
    #[error("image {reference} is not present and could not be pulled: {reason}")]
    ImageNotFound {
        /// As the request names it.
        reference: String,
        /// Why not.
        reason: String,
    },
    /// The request names a provider that the administrator has left out.
    #[error("provider {provider} is disabled: {reason}")]
    ProviderDisabled {
        /// Which.
        provider: ProviderKind,
        /// Why.
        reason: String,
    },
    /// Another MCP server has this name.
    #[error("there is an MCP server {name:?} already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The snapshot to start from is not there.
    #[error("snapshot {id} does not exist")]
    SnapshotNotFound {
        /// Which.
        id: SnapshotId,
    },
    /// No provider could make a sandbox.
    #[error(transparent)]
    NoProvider(NoProvider),
    /// A sandbox was made, but its agent did not answer.
    #[error("the agent of workspace {id} did not answer: {reason}")]
    AgentSilent {
        /// Whose.
        id: WorkspaceId,
        /// What the client said.
        reason: String,
    },
    /// It was made, and could not be written down.
    #[error("workspace {id} was made, but the database did not take it; it is removed")]
    NotRecorded {
        /// Which.
        id: WorkspaceId,
    },
    /// Somebody destroyed it while it was being made.
    #[error("workspace {id} was destroyed while it was being created")]
    Destroyed {
        /// Which.
        id: WorkspaceId,
    },
    /// The key of the request was used before, and this is not that request again.
    #[error("{}", key_conflict(*.id, *.is_gone))]
    KeyConflict {
        /// The workspace that was made under it.
        id: WorkspaceId,
        /// The request was the same, but the workspace is not there any more.
        is_gone: bool,
    },
    /// The row contradicts another (an owner that has gone).
    #[error("{reason}")]
    Rejected {
        /// What the store said.
        reason: String,
    },
    /// The server is going down.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The row could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn key_conflict(id: WorkspaceId, is_gone: bool) -> String {
    if is_gone {
        format!("workspace {id} was made under this Idempotency-Key and is gone")
    } else {
        format!("this Idempotency-Key was used for another request, which made workspace {id}")
    }
}

/// A workspace was not stopped, resumed or destroyed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LifecycleError {
    /// There is no such workspace.
    #[error("workspace {id} does not exist")]
    NotFound {
        /// Which.
        id: WorkspaceId,
    },
    /// It cannot be done in the state it is in.
    #[error("workspace {id} is {status}")]
    WrongState {
        /// Which.
        id: WorkspaceId,
        /// Its state.
        status: WorkspaceStatus,
    },
    /// Another session works in it.
    #[error("workspace {id} is attached to session {holder}")]
    Attached {
        /// Which.
        id: WorkspaceId,
        /// Who has it.
        holder: Uuid,
    },
    /// Resuming would exceed the concurrency limit.
    #[error(
        "{active} of {max} workspaces are active: wait for one to end, or stop or destroy one that is not needed"
    )]
    LimitReached {
        /// Active now.
        active: u32,
        /// The limit.
        max: u32,
    },
    /// Its provider is none of this server's.
    #[error(
        "workspace {id} is with provider {provider}, which this server does not have: start the server with it \
         (WORKSPACE_PROVIDERS), or destroy the workspace with force=true as an administrator, which forgets it \
         and leaves what {provider} still has of it"
    )]
    ProviderMissing {
        /// Which.
        id: WorkspaceId,
        /// Where it is.
        provider: ProviderKind,
    },
    /// The provider could not do it; it will be tried again where that makes sense.
    #[error("workspace {id}: {reason}")]
    Provider {
        /// Which.
        id: WorkspaceId,
        /// What the provider said.
        reason: String,
    },
    /// The server is going down.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The row could not be read or written.
    #[error("{reason}")]
    Store {
        /// What the store said.
        reason: String,
        /// The same call may succeed later.
        retryable: bool,
    },
}

impl From<StoreError> for LifecycleError {
    fn from(error: StoreError) -> Self {
        Self::Store { retryable: error.is_retryable(), reason: error.to_string() }
    }
}

/// A tool call was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// There is no such workspace.
    #[error("workspace {id} does not exist")]
    NotFound {
        /// Which.
        id: WorkspaceId,
    },
    /// The workspace is not ready.
    #[error("workspace {id} is {status}, not ready")]
    NotReady {
        /// Which.
        id: WorkspaceId,
        /// Its state.
        status: WorkspaceStatus,
    },
    /// The server is going down.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The disk limit is watched, and there is no room for this.
    #[error(
        "the disk of workspace {id} has no room for {wanted} bytes more: {used}; what is removed counts \
         some seconds later"
    )]
    DiskFull {
        /// Which.
        id: WorkspaceId,
        /// What was to be written.
        path: String,
        /// What is used.
        used: String,
        /// How much was to be written.
        wanted: u64,
    },
    /// The agent could not, or could not be reached.
    #[error(transparent)]
    Agent(#[from] AgentError),
}
