//! The provider: what the trait asks, each request done to its end.

use std::sync::Arc;

use async_trait::async_trait;
use emergent_agent_client::AgentStream;
use emergent_provider::{
    Health, ObservedSandbox, ObservedSnapshot, Operation, ProviderError, Sandbox, SandboxSpec, Snapshot,
    Usage, VolumeName, WorkspaceProvider,
};
use emergent_types::{Capabilities, NetworkMode, ProviderKind, SnapshotId, WorkspaceId};

use super::control_group;
use super::host::Host;
use super::options::DirectOptions;
use crate::turns::Turns;

/// Sandboxes under gVisor, with `runsc` and without Docker.
pub struct DirectProvider {
    host: Arc<Host>,
    turns: Turns,
}

impl DirectProvider {
    /// A provider that has touched nothing yet: `runsc` is looked for when something is asked, and
    /// [`health`](WorkspaceProvider::health) says what is missing.
    pub fn new(options: DirectOptions) -> Self {
        Self { host: Arc::new(Host::new(options)), turns: Turns::default() }
    }

    /// Does the work to its end, after all earlier work for the same workspace.
    async fn in_turn<T, F>(
        &self,
        operation: Operation,
        id: WorkspaceId,
        work: impl FnOnce(Arc<Host>) -> F,
    ) -> Result<T, ProviderError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ProviderError>> + Send + 'static,
    {
        let result = self.turns.take(id, work(Arc::clone(&self.host))).await;
        result.unwrap_or_else(|panic| Err(self.host.step(operation, id, "task", panic)))
    }
}

#[async_trait]
impl WorkspaceProvider for DirectProvider {
    fn kind(&self) -> ProviderKind {
        self.host.kind()
    }

    async fn capabilities(&self) -> Capabilities {
        self.host.capabilities()
    }

    async fn why_no_network(&self, mode: NetworkMode) -> Option<String> {
        self.host.why_no_network(mode)
    }

    async fn health(&self) -> Health {
        self.host.health().await
    }

    async fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let spec = spec.clone();
        self.in_turn(Operation::Create, spec.id, async move |host: Arc<Host>| host.create(&spec).await).await
    }

    async fn destroy(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.in_turn(Operation::Destroy, id, async move |host: Arc<Host>| {
            host.remove_everything(Operation::Destroy, id).await
        })
        .await
    }

    async fn stop(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.in_turn(Operation::Stop, id, async move |host: Arc<Host>| host.stop(id).await).await
    }

    async fn suspend(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.in_turn(Operation::Suspend, id, async move |host: Arc<Host>| host.suspend(id).await).await
    }

    async fn wake(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.in_turn(Operation::Wake, id, async move |host: Arc<Host>| host.wake(id).await).await
    }

    async fn resume(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let spec = spec.clone();
        self.in_turn(Operation::Resume, spec.id, async move |host: Arc<Host>| host.resume(&spec).await).await
    }

    async fn adjust(&self, spec: &SandboxSpec) -> Result<(), ProviderError> {
        let spec = spec.clone();
        self.in_turn(Operation::Adjust, spec.id, async move |host: Arc<Host>| host.adjust(&spec).await).await
    }

    async fn connect(&self, id: WorkspaceId) -> Result<AgentStream, ProviderError> {
        self.host.connect(id).await
    }

    fn has_costly_streams(&self, id: WorkspaceId) -> bool {
        self.host.streams.has_relays(id)
    }

    async fn usage(&self, id: WorkspaceId) -> Result<Option<Usage>, ProviderError> {
        // Takes no turn: whoever wants to stop or destroy it does not wait for this.
        self.host.usage(id).await.map(Some)
    }

    async fn ended_for_want_of_memory(&self, id: WorkspaceId) -> bool {
        let group = self.host.group(id);
        // Not knowing is no evidence.
        tokio::task::spawn_blocking(move || control_group::ran_out_of_memory(&group)).await.unwrap_or(false)
    }

    async fn snapshot(&self, snapshot: SnapshotId, spec: &SandboxSpec) -> Result<Snapshot, ProviderError> {
        let (id, spec) = (spec.id, spec.clone());
        let turn = self.host.snapshots.to_change(snapshot).await;
        let work = async move |host: Arc<Host>| host.snapshot(turn, snapshot, &spec).await;
        self.in_turn(Operation::Snapshot, id, work).await
    }

    async fn restore(&self, snapshot: SnapshotId, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let (id, spec) = (spec.id, spec.clone());
        let turn = self.host.snapshots.to_use(snapshot).await;
        let work = async move |host: Arc<Host>| host.restore(turn, snapshot, &spec).await;
        self.in_turn(Operation::Restore, id, work).await
    }

    async fn delete_snapshot(&self, snapshot: SnapshotId) -> Result<(), ProviderError> {
        let host = Arc::clone(&self.host);
        let turn = host.snapshots.to_change(snapshot).await;
        let deleted = tokio::spawn(async move { host.delete_snapshot(turn, snapshot).await }).await;
        deleted.unwrap_or_else(|panic| Err(self.host.snapshot_step(snapshot, "task", panic)))
    }

    async fn list_snapshots(&self) -> Result<Vec<ObservedSnapshot>, ProviderError> {
        self.host.list_snapshots().await
    }

    async fn remove_volume(&self, volume: &VolumeName) -> Result<(), ProviderError> {
        let (host, name) = (Arc::clone(&self.host), volume.clone());
        let removed = tokio::spawn(async move { host.remove_volume(&name).await }).await;
        removed.unwrap_or_else(|panic| Err(self.host.volume_step(volume, "task", panic)))
    }

    async fn list_volumes(&self) -> Result<Vec<VolumeName>, ProviderError> {
        self.host.list_volumes().await
    }

    async fn list(&self) -> Result<Vec<ObservedSandbox>, ProviderError> {
        self.host.list().await
    }
}
