//! The provider: what the trait asks, each request done to its end.
//!
//! A daemon cannot be told to forget a half-heard request, so an operation goes on when its caller
//! goes away, and operations on one workspace wait for each other. What a cancelled create leaves is
//! therefore a whole sandbox or none, and the next destroy removes it.

use std::sync::Arc;

use async_trait::async_trait;
use emergent_agent_client::AgentStream;
use emergent_provider::{
    DiskUse, Health, ObservedSandbox, ObservedSnapshot, Operation, ProviderError, Sandbox, SandboxSpec,
    Snapshot, Usage, VolumeName, WorkspaceProvider,
};
use emergent_types::{Capabilities, NetworkMode, ProviderKind, SnapshotId, WorkspaceId};

use crate::host::Host;
use crate::options::Options;
use crate::turns::Turns;

/// Sandboxes in Docker's containers, under gVisor or Docker's own runtime.
pub struct GvisorProvider {
    host: Arc<Host>,
    turns: Turns,
}

impl GvisorProvider {
    /// A provider that has touched nothing yet: Docker is looked for when something is asked, and
    /// [`health`](WorkspaceProvider::health) says what is missing.
    pub fn new(options: Options) -> Self {
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
impl WorkspaceProvider for GvisorProvider {
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
        let health = self.host.health().await;
        if health.is_healthy() {
            Host::tidy_when_due(&self.host);
            Host::reconsider_when_due(&self.host);
        }
        health
    }

    async fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let spec = spec.clone();
        self.in_turn(Operation::Create, spec.id, async move |host: Arc<Host>| {
            // Large: it is made where it stays.
            Box::pin(host.create(&spec)).await
        })
        .await
    }

    fn progress(&self, spec: &SandboxSpec) -> Option<String> {
        let default = &self.host.options.default_image;
        self.host.images.progress(spec.base_image.as_ref().unwrap_or(default))
    }

    async fn destroy(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.in_turn(Operation::Destroy, id, async move |host: Arc<Host>| host.destroy(id).await).await
    }

    async fn stop(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.in_turn(Operation::Stop, id, async move |host: Arc<Host>| host.stop(id).await).await
    }

    async fn suspend(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        let work = async move |host: Arc<Host>| Box::pin(host.suspend(id)).await;
        self.in_turn(Operation::Suspend, id, work).await
    }

    async fn wake(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        let work = async move |host: Arc<Host>| Box::pin(host.wake(id)).await;
        self.in_turn(Operation::Wake, id, work).await
    }

    async fn resume(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let spec = spec.clone();
        self.in_turn(Operation::Resume, spec.id, async move |host: Arc<Host>| {
            Box::pin(host.resume(&spec)).await
        })
        .await
    }

    async fn adjust(&self, spec: &SandboxSpec) -> Result<(), ProviderError> {
        let (id, spec) = (spec.id, spec.clone());
        let work = async move |host: Arc<Host>| Box::pin(host.adjust(&spec)).await;
        self.in_turn(Operation::Adjust, id, work).await
    }

    async fn connect(&self, id: WorkspaceId) -> Result<AgentStream, ProviderError> {
        self.host.connect(id).await
    }

    fn has_costly_streams(&self, id: WorkspaceId) -> bool {
        self.host.streams.has_relays(id)
    }

    async fn disk_use(&self, id: WorkspaceId) -> Result<Option<DiskUse>, ProviderError> {
        // Takes no turn: whoever wants to stop or destroy it does not wait for this.
        self.host.disk_use(id).await
    }

    async fn usage(&self, id: WorkspaceId) -> Result<Option<Usage>, ProviderError> {
        // Takes no turn either.
        self.host.usage(id).await.map(Some)
    }

    async fn ended_for_want_of_memory(&self, id: WorkspaceId) -> bool {
        self.host.ended_for_want_of_memory(id).await
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
