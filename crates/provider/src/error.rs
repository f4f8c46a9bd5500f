//! Why a provider could not do what it was asked.

use std::fmt;
use std::time::Duration;

use emergent_types::{ProviderKind, SnapshotId, WorkspaceId};

use crate::VolumeName;

/// What a provider was asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Make a sandbox.
    Create,
    /// Remove a sandbox.
    Destroy,
    /// End its processes.
    Stop,
    /// Hold them where they are.
    Suspend,
    /// Let them go on.
    Wake,
    /// Start it again.
    Resume,
    /// Change its limits while it runs.
    Adjust,
    /// Open a stream to its agent.
    Connect,
    /// Copy its disk.
    Snapshot,
    /// Make one from a copy.
    Restore,
    /// Remove a copy.
    DeleteSnapshot,
    /// Remove a volume.
    RemoveVolume,
    /// See what exists.
    List,
    /// Count what it has written.
    Measure,
    /// See what it uses.
    Usage,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Destroy => "destroy",
            Self::Stop => "stop",
            Self::Suspend => "suspend",
            Self::Wake => "waking",
            Self::Resume => "resume",
            Self::Adjust => "adjustment",
            Self::Connect => "connect",
            Self::Snapshot => "snapshot",
            Self::Restore => "restore",
            Self::DeleteSnapshot => "deletion",
            Self::RemoveVolume => "removal",
            Self::List => "list",
            Self::Measure => "measurement",
            Self::Usage => "look at its use",
        })
    }
}

/// Why a provider could not do what it was asked. Carries what a log line needs to stand
/// alone.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// There is no such sandbox (or, for a resume, no disk).
    #[error("{provider}: workspace {id} does not exist here")]
    NotFound {
        /// Who was asked.
        provider: ProviderKind,
        /// For what.
        id: WorkspaceId,
    },
    /// The sandbox is there but has no running processes.
    #[error("{provider}: workspace {id} is not running")]
    NotRunning {
        /// Who was asked.
        provider: ProviderKind,
        /// For what.
        id: WorkspaceId,
    },
    /// The provider cannot do this at all.
    #[error("{provider}: {operation} is not supported (workspace {id})")]
    Unsupported {
        /// Who was asked.
        provider: ProviderKind,
        /// What was asked.
        operation: Operation,
        /// For what.
        id: WorkspaceId,
    },
    /// The request names something that cannot be enforced here.
    #[error("{provider}: {what} cannot be enforced here: {reason}")]
    NotEnforceable {
        /// Who was asked.
        provider: ProviderKind,
        /// The field of the request.
        what: &'static str,
        /// Why not.
        reason: String,
    },
    /// The image that the request names is not there and could not be got.
    #[error(
        "{provider}: image_not_found: image {reference} is not present and could not be pulled: {reason}"
    )]
    ImageNotFound {
        /// Who was asked.
        provider: ProviderKind,
        /// The image, as the request names it.
        reference: String,
        /// What the registry said, or whoever was asked for it.
        reason: String,
    },
    /// Something the provider needs is missing on this host.
    #[error("{provider} is not available: {reason}")]
    Unavailable {
        /// Who was asked.
        provider: ProviderKind,
        /// What is missing.
        reason: String,
    },
    /// The host has run out of something.
    #[error("{provider}: out of {resource} for workspace {id}")]
    Exhausted {
        /// Who was asked.
        provider: ProviderKind,
        /// Of what.
        resource: &'static str,
        /// For what.
        id: WorkspaceId,
    },
    /// It took too long and was given up.
    #[error("{provider}: {operation} of workspace {id} took longer than {limit:?}")]
    TimedOut {
        /// Who was asked.
        provider: ProviderKind,
        /// What was asked.
        operation: Operation,
        /// For what.
        id: WorkspaceId,
        /// How long was waited.
        limit: Duration,
    },
    /// A step failed.
    #[error("{provider}: {operation} of workspace {id} failed at {step}: {reason}")]
    Step {
        /// Who was asked.
        provider: ProviderKind,
        /// What was asked.
        operation: Operation,
        /// For what.
        id: WorkspaceId,
        /// Which step.
        step: &'static str,
        /// What it said.
        reason: String,
    },
    /// There is no such snapshot, or one that was never finished.
    #[error("{provider}: snapshot {snapshot} does not exist here")]
    SnapshotNotFound {
        /// Who was asked.
        provider: ProviderKind,
        /// For what.
        snapshot: SnapshotId,
    },
    /// A step with a snapshot failed that concerns no sandbox.
    #[error("{provider}: {operation} of snapshot {snapshot} failed at {step}: {reason}")]
    SnapshotStep {
        /// Who was asked.
        provider: ProviderKind,
        /// What was asked.
        operation: Operation,
        /// For what.
        snapshot: SnapshotId,
        /// Which step.
        step: &'static str,
        /// What it said.
        reason: String,
    },
    /// A sandbox has the volume.
    #[error("{provider}: volume {volume} is in use")]
    VolumeInUse {
        /// Who was asked.
        provider: ProviderKind,
        /// For what.
        volume: VolumeName,
    },
    /// A step with a volume failed.
    #[error("{provider}: {operation} of volume {volume} failed at {step}: {reason}")]
    VolumeStep {
        /// Who was asked.
        provider: ProviderKind,
        /// What was asked.
        operation: Operation,
        /// For what.
        volume: VolumeName,
        /// Which step.
        step: &'static str,
        /// What it said.
        reason: String,
    },
    /// What exists of this installation could not be listed.
    #[error("{provider}: cannot list what exists: {reason}")]
    List {
        /// Who was asked.
        provider: ProviderKind,
        /// What it said.
        reason: String,
    },
}

impl ProviderError {
    /// The provider cannot do this at all.
    pub fn unsupported(provider: ProviderKind, operation: Operation, id: WorkspaceId) -> Self {
        Self::Unsupported { provider, operation, id }
    }

    /// Whether the same call may succeed later without anything being changed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Exhausted { .. }
            | Self::TimedOut { .. }
            | Self::Step { .. }
            | Self::SnapshotStep { .. }
            | Self::VolumeInUse { .. }
            | Self::VolumeStep { .. }
            | Self::List { .. } => true,
            Self::NotFound { .. }
            | Self::SnapshotNotFound { .. }
            | Self::NotRunning { .. }
            | Self::Unsupported { .. }
            | Self::NotEnforceable { .. }
            | Self::ImageNotFound { .. }
            | Self::Unavailable { .. } => false,
        }
    }

    /// Whether another provider might manage what this one did not.
    pub fn allows_fallback(&self) -> bool {
        !matches!(self, Self::NotFound { .. } | Self::NotRunning { .. } | Self::SnapshotNotFound { .. })
    }
}
