//! What is asked of a provider, and what it reports.

use emergent_agent_client::AgentKey;
use emergent_types::{
    DiskEnforcement, IsolationLevel, NamedDemands, NetworkMode, Persistence, ResourceLimits, WorkspaceId,
};
use serde::{Deserialize, Serialize};

use crate::VolumeMount;

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
    /// Which of these the request itself names.
    pub named: NamedDemands,
    /// Volumes of the installation that it has beside its own disk.
    pub volumes: Vec<VolumeMount>,
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
    /// What the author of its image wants to be run in it; `None` where there is no image.
    pub image: Option<ImageDefaults>,
    /// What the user should know (reduced isolation, a limit that is not enforced).
    pub warnings: Vec<String>,
}

/// What an image's author wants to be run in it. Nothing of it is done: whoever starts a program in a
/// sandbox may want to know. Variables that the image sets are found by every command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageDefaults {
    /// The program with its first arguments.
    pub entrypoint: Vec<String>,
    /// More arguments, or the program where there is no entrypoint.
    pub command: Vec<String>,
    /// Where.
    pub workdir: Option<String>,
    /// As whom: a name or a number, perhaps with a group behind a colon.
    pub user: Option<String>,
}

/// What a sandbox uses of a disk whose limit is watched and upheld by nobody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes in use; once there are too many, at least so many.
    pub bytes: u64,
    /// How many are allowed.
    pub max_bytes: u64,
    /// Files and folders, likewise.
    pub files: u64,
    /// How many are allowed.
    pub max_files: u64,
    /// Some of it is laid out so that it cannot be counted. Counts as full: a limit must not be
    /// lifted by hiding from it.
    pub uncounted: bool,
}

impl DiskUse {
    /// How much of what is allowed is used: of bytes or of files, whichever is more.
    pub fn percent(&self) -> u64 {
        let of = |used: u64, max: u64| {
            u64::try_from(u128::from(used) * 100 / u128::from(max.max(1))).unwrap_or(u64::MAX)
        };
        let counted = of(self.bytes, self.max_bytes).max(of(self.files, self.max_files));
        if self.uncounted { counted.max(100) } else { counted }
    }

    /// Bytes that may still be written.
    pub fn room(&self) -> u64 {
        if self.percent() >= 100 { 0 } else { self.max_bytes - self.bytes }
    }
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
    /// Its processes stand still, with their memory.
    Suspended,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_full_by_bytes_by_files_or_by_hiding() {
        let check = |bytes, files, uncounted, percent, room| {
            let used = DiskUse { bytes, max_bytes: 1000, files, max_files: 10, uncounted };
            assert_eq!((used.percent(), used.room()), (percent, room), "{used:?}");
        };
        check(0, 0, false, 0, 1000);
        check(799, 7, false, 79, 201);
        check(100, 8, false, 80, 900);
        check(1000, 1, false, 100, 0);
        check(1, 10, false, 100, 0);
        check(1, 1, true, 100, 0);
        check(u64::MAX, 1, true, u64::MAX / 10, 0);
    }
}
