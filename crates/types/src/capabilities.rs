//! What a provider can do, as data.

use serde::{Deserialize, Serialize};

use crate::{ByteSize, DiskEnforcement, IsolationLevel, NetworkMode, Persistence};

/// What a provider can do on this host, now. Figures are measured, never guessed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Capabilities {
    /// The level every sandbox of this provider really has.
    pub isolation: IsolationLevel,
    /// What stop and resume keep; absent where a sandbox cannot be stopped.
    pub persistence: Option<Persistence>,
    /// Whether a stop can keep what runs (`mode` `memory`).
    pub suspend: bool,
    /// Whether snapshots can be taken and restored.
    pub snapshots: bool,
    /// Whether sandboxes can be made ahead of time and handed out.
    pub warm_pool: bool,
    /// Network modes that can be enforced.
    pub networks: Vec<NetworkMode>,
    /// Whether a request may name an image.
    pub base_image: bool,
    /// Which limits are really enforced.
    pub limits: LimitEnforcement,
    /// What the host must have (`"linux"`, `"root"`, `"kvm"`, `"docker"`).
    pub platform_needs: Vec<String>,
    /// Measured over this process's own creates; absent before the first.
    pub startup_ms: Option<StartupMillis>,
    /// What is left on the host; absent where it cannot be known.
    pub free: Option<FreeResources>,
}

/// Whether one limit is upheld.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Enforcement {
    /// The kernel or the runtime upholds it.
    Enforced,
    /// It cannot be upheld here.
    NotEnforced,
}

/// Per limit: enforced or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LimitEnforcement {
    /// CPU time.
    pub cpu: Enforcement,
    /// Memory, tmpfs included.
    pub memory: Enforcement,
    /// Number of processes.
    pub pids: Enforcement,
    /// Everything the sandbox can write.
    pub disk: DiskEnforcement,
}

/// How long creates took, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StartupMillis {
    /// The median.
    pub p50: u64,
    /// 95 of 100 were faster.
    pub p95: u64,
}

/// What a host has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FreeResources {
    /// Processors of the host.
    pub cpus: u32,
    /// Memory available to new processes.
    pub memory: ByteSize,
    /// Room on the file system that holds the sandboxes' disks.
    pub disk: ByteSize,
}
