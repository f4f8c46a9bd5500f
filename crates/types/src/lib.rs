//! The words every other crate speaks: ids, limits, states, isolation levels and
//! capabilities. Pure data and pure functions; no I/O, no async runtime.

mod capabilities;
mod id;
mod isolation;
mod limits;
mod mcp;
mod named_demands;
mod provider;
mod status;
mod workspace;

pub use capabilities::{
    AdjustableLimits, Capabilities, Enforcement, FreeResources, LimitEnforcement, RuntimeFacts, StartupMillis,
};
pub use id::{InstallationId, ParseIdError, SnapshotId, WorkspaceId};
pub use isolation::IsolationLevel;
pub use limits::{ByteSize, Cpu, ParseLimitError, ResourceLimits};
pub use mcp::{RestartPolicy, ServerHealth, ServerMode};
pub use named_demands::NamedDemands;
pub use provider::{ProviderChoice, ProviderKind};
pub use status::WorkspaceStatus;
pub use workspace::{
    ContainerType, DeploymentMode, DiskEnforcement, Lifecycle, NetworkMode, Persistence, StopMode,
    UnknownName,
};
