//! The trait every provider implements.

use async_trait::async_trait;
use emergent_agent_client::AgentStream;
use emergent_types::{Capabilities, NetworkMode, ProviderKind, WorkspaceId};

use crate::{DiskUse, Health, ObservedSandbox, Operation, ProviderError, Sandbox, SandboxSpec, SnapshotId};

/// Makes and removes sandboxes.
///
/// Rules that hold for every method:
///
/// - **Names derive from ids.** Everything a provider makes outside this process carries the
///   installation's id and the workspace's id, so that [`list`](Self::list) can find it
///   after a crash at any point.
/// - **Cancellation.** Dropping the returned future may leave a half-made or half-removed
///   sandbox; it is visible in `list`, and `destroy` removes it. Nothing is left that `list`
///   does not show.
/// - **The guest is hostile.** No path, name or number that comes from inside a sandbox is
///   used on the host.
#[async_trait]
pub trait WorkspaceProvider: Send + Sync {
    /// Which provider this is.
    fn kind(&self) -> ProviderKind;

    /// What this provider can do on this host now. Cheap; may be asked before every create.
    async fn capabilities(&self) -> Capabilities;

    /// Why a network mode is not among the [`networks`](Capabilities::networks), for people.
    /// `None` where nothing is known about it.
    async fn why_no_network(&self, _mode: NetworkMode) -> Option<String> {
        None
    }

    /// Whether creates are expected to work. Cheap enough for every 30 seconds, and bounded
    /// by the caller's deadline.
    async fn health(&self) -> Health;

    /// Makes a sandbox and starts its agent. When this returns, [`connect`](Self::connect)
    /// works.
    ///
    /// Idempotent by `spec.id`: a sandbox that is already running with that id is returned
    /// as it is; a half-made one is removed first. On error nothing is left behind, unless
    /// the error says otherwise by being retryable and `list` showing it.
    async fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError>;

    /// Ends all processes and removes everything, disk included. The caller has already asked
    /// the agent to quiesce. Every stream of the sandbox ends. Idempotent: a sandbox that is
    /// not there is success.
    async fn destroy(&self, id: WorkspaceId) -> Result<(), ProviderError>;

    /// Ends all processes and keeps the disk. Every stream of the sandbox ends. Idempotent: a
    /// stopped sandbox is success.
    async fn stop(&self, id: WorkspaceId) -> Result<(), ProviderError>;

    /// Stops every process where it is and keeps its memory, for a short while in which nothing is
    /// to happen; [`resume`](Self::resume) lets it go on. Streams stay open and say nothing.
    /// Idempotent: a suspended sandbox is success. `NotRunning` when it has no processes.
    async fn suspend(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        Err(ProviderError::unsupported(self.kind(), Operation::Suspend, id))
    }

    /// Makes a sandbox around a kept disk again, with the same limits, network and level; one that
    /// was suspended goes on. Idempotent: a running sandbox is returned as it is. `NotFound` when
    /// there is no disk.
    async fn resume(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError>;

    /// Opens a new byte stream to the agent. May be called as often as needed; streams are
    /// independent. `NotRunning` when the sandbox has no processes.
    async fn connect(&self, id: WorkspaceId) -> Result<AgentStream, ProviderError>;

    /// What a sandbox uses of its disk, where that is
    /// [`Monitored`](emergent_types::DiskEnforcement::Monitored); `None` where the limit holds by
    /// itself. Takes as long as counting its files takes, and gives up after some minutes.
    async fn disk_use(&self, _id: WorkspaceId) -> Result<Option<DiskUse>, ProviderError> {
        Ok(None)
    }

    /// Whether a sandbox that nobody stopped has ended because it ran into its wall of memory as a
    /// whole. Asked before `stop` clears away what is left of it. Where one process dies in its place,
    /// or nothing is known, `false`.
    async fn ended_for_want_of_memory(&self, _id: WorkspaceId) -> bool {
        false
    }

    /// Takes a point-in-time copy of a sandbox's disk.
    async fn snapshot(&self, id: WorkspaceId) -> Result<SnapshotId, ProviderError> {
        Err(ProviderError::unsupported(self.kind(), Operation::Snapshot, id))
    }

    /// Makes a new sandbox from a snapshot. Network and level are those of `spec`, never
    /// weaker than the snapshot's own.
    async fn restore(&self, _snapshot: &SnapshotId, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        Err(ProviderError::unsupported(self.kind(), Operation::Restore, spec.id))
    }

    /// Everything of this installation that exists here: running, stopped or half made.
    /// Nothing foreign is ever listed.
    async fn list(&self) -> Result<Vec<ObservedSandbox>, ProviderError>;
}
