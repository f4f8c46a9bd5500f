//! The trait every provider implements.

use async_trait::async_trait;
use emergent_agent_client::AgentStream;
use emergent_types::{Capabilities, NetworkMode, ProviderKind, SnapshotId, WorkspaceId};

use crate::{
    DiskUse, Health, ObservedSandbox, ObservedSnapshot, Operation, ProviderError, Sandbox, SandboxSpec,
    Snapshot, Usage, VolumeName,
};

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

    /// How far a [`create`](Self::create) of such a sandbox is, for people, where it is at something that takes
    /// long: an image that is pulled. Cheap: it is asked every second.
    fn progress(&self, _spec: &SandboxSpec) -> Option<String> {
        None
    }

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

    /// Lets a suspended sandbox go on, and does nothing else: somebody waits for it. Idempotent: a running
    /// sandbox is success. `NotRunning` or `NotFound` when it has no processes; nothing is started then.
    async fn wake(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        Err(ProviderError::unsupported(self.kind(), Operation::Wake, id))
    }

    /// Makes a sandbox around a kept disk again, with the same limits, network and level; one that
    /// was suspended goes on. Idempotent: a running sandbox is returned as it is. `NotFound` when
    /// there is no disk.
    async fn resume(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError>;

    /// Changes the limits of a running sandbox to those of `spec`, as far as they are
    /// [`adjustable`](Capabilities::adjustable); the others are left as they are. What is left after success is
    /// what [`create`](Self::create) would have made. What the sandbox uses by then must fit into the new
    /// limits: nothing in it is ended to make room, unless the kernel knows no other way.
    ///
    /// Idempotent: limits that are so already are success, so whoever does not know asks again. On error and
    /// after a cancellation each limit is the old one or the new one, the sandbox runs on, and the same call
    /// may be made again. `NotRunning` or `NotFound` when it has no processes; `NotEnforceable` when no
    /// sandbox could have such limits here.
    async fn adjust(&self, spec: &SandboxSpec) -> Result<(), ProviderError> {
        Err(ProviderError::unsupported(self.kind(), Operation::Adjust, spec.id))
    }

    /// Opens a new byte stream to the agent. May be called as often as needed; streams are
    /// independent. `NotRunning` when the sandbox has no processes.
    async fn connect(&self, id: WorkspaceId) -> Result<AgentStream, ProviderError>;

    /// Whether streams of this sandbox are open of which each costs the host a process, so that one
    /// which nobody needs is worth closing. Cheap.
    fn has_costly_streams(&self, _id: WorkspaceId) -> bool {
        false
    }

    /// What a sandbox uses of its disk, where that is
    /// [`Monitored`](emergent_types::DiskEnforcement::Monitored); `None` where the limit holds by
    /// itself. Takes as long as counting its files takes, and gives up after some minutes.
    async fn disk_use(&self, _id: WorkspaceId) -> Result<Option<DiskUse>, ProviderError> {
        Ok(None)
    }

    /// What a running sandbox uses, as the host counts it; `None` where nothing can be told. Cheap: it is
    /// asked of every running sandbox every few seconds, and of several at once. `NotRunning` or `NotFound`
    /// when it has no processes.
    async fn usage(&self, _id: WorkspaceId) -> Result<Option<Usage>, ProviderError> {
        Ok(None)
    }

    /// Whether a sandbox that nobody stopped has ended because it ran into its wall of memory as a
    /// whole. Asked before `stop` clears away what is left of it. Where one process dies in its place,
    /// or nothing is known, `false`.
    async fn ended_for_want_of_memory(&self, _id: WorkspaceId) -> bool {
        false
    }

    /// Takes a copy of a sandbox's disk as it is at one moment, and keeps it under the name `snapshot`
    /// until [`delete_snapshot`](Self::delete_snapshot). The sandbox of `spec` runs, stands still or is
    /// stopped, and goes on as before; while the copy is made its writes may wait. What a write had
    /// reported before is in the copy; what runs is not.
    ///
    /// The network of `spec` and the level of the sandbox are kept with it, because
    /// [`restore`](Self::restore) never loosens them.
    ///
    /// Idempotent by `snapshot`: a whole one of that name is returned as it is, and the remains of one
    /// are removed first. On error nothing is left of it; after a cancellation
    /// [`list_snapshots`](Self::list_snapshots) shows what is. `NotFound` when there is no disk;
    /// `TimedOut` when writes would have had to wait for too long, which stopping the sandbox avoids.
    async fn snapshot(&self, _snapshot: SnapshotId, spec: &SandboxSpec) -> Result<Snapshot, ProviderError> {
        Err(ProviderError::unsupported(self.kind(), Operation::Snapshot, spec.id))
    }

    /// Makes a new sandbox whose disk is what a snapshot holds; otherwise like
    /// [`create`](Self::create), with an id, a name and a key of its own. The image is the snapshot's:
    /// the one in `spec` is not looked at. `NotEnforceable` when `spec` asks for more reach than the
    /// snapshot's sandbox had, or for a smaller disk, or when the level here is weaker; a larger disk is
    /// had where disks are limited.
    ///
    /// Idempotent by `spec.id`, as `create` is. On error and after a cancellation the same is left as by
    /// `create`; the snapshot stays as it is. `SnapshotNotFound` when it is not there or not whole. A
    /// deletion that comes meanwhile waits for it, or is waited for.
    async fn restore(&self, _snapshot: SnapshotId, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        Err(ProviderError::unsupported(self.kind(), Operation::Restore, spec.id))
    }

    /// Removes a snapshot, whole or not. Sandboxes that were made from it are not touched. Idempotent: one
    /// that is not there is success. On error and after a cancellation the rest of it is listed, not as
    /// whole, and the next deletion removes it.
    async fn delete_snapshot(&self, _snapshot: SnapshotId) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Every snapshot of this installation that exists here, whole or not. Nothing foreign is ever listed.
    async fn list_snapshots(&self) -> Result<Vec<ObservedSnapshot>, ProviderError> {
        Ok(Vec::new())
    }

    /// Removes a volume of that name with everything in it. Idempotent: one that is not there is success.
    /// `VolumeInUse` while a sandbox has it, running and, where the provider can tell, stopped. On error and
    /// after a cancellation what is left is listed, and the next removal removes it.
    async fn remove_volume(&self, _volume: &VolumeName) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Every volume with a name of this installation that exists here, whole or not. A volume is made when
    /// the first sandbox has it, outlives that one, and is in no snapshot.
    async fn list_volumes(&self) -> Result<Vec<VolumeName>, ProviderError> {
        Ok(Vec::new())
    }

    /// Everything of this installation that exists here: running, stopped or half made.
    /// Nothing foreign is ever listed.
    async fn list(&self) -> Result<Vec<ObservedSandbox>, ProviderError>;
}
