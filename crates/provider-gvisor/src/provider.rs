//! The provider: what the trait asks, each request done to its end.
//!
//! A daemon cannot be told to forget a half-heard request, so an operation goes on when its caller
//! goes away, and operations on one workspace wait for each other. What a cancelled create leaves is
//! therefore a whole sandbox or none, and the next destroy removes it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use emergent_agent_client::AgentStream;
use emergent_provider::{
    DiskUse, Health, ObservedSandbox, Operation, ProviderError, Sandbox, SandboxSpec, WorkspaceProvider,
};
use emergent_types::{Capabilities, NetworkMode, ProviderKind, WorkspaceId};

use crate::host::Host;
use crate::options::Options;

/// Sandboxes in Docker's containers, under gVisor or Docker's own runtime.
pub struct GvisorProvider {
    host: Arc<Host>,
    turns: Mutex<HashMap<WorkspaceId, Arc<tokio::sync::Mutex<()>>>>,
}

impl GvisorProvider {
    /// A provider that has touched nothing yet: Docker is looked for when something is asked, and
    /// [`health`](WorkspaceProvider::health) says what is missing.
    pub fn new(options: Options) -> Self {
        Self { host: Arc::new(Host::new(options)), turns: Mutex::default() }
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
        let turn =
            Arc::clone(self.turns.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_default());
        let work = work(Arc::clone(&self.host));
        let task = tokio::spawn(async move {
            let _turn = turn.lock().await;
            work.await
        });
        let result = task.await;
        self.turns
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|_, turn| Arc::strong_count(turn) > 1);
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
        }
        health
    }

    async fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let spec = spec.clone();
        self.in_turn(Operation::Create, spec.id, async move |host: Arc<Host>| host.create(&spec).await).await
    }

    async fn destroy(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.in_turn(Operation::Destroy, id, async move |host: Arc<Host>| host.destroy(id).await).await
    }

    async fn stop(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.in_turn(Operation::Stop, id, async move |host: Arc<Host>| host.stop(id).await).await
    }

    async fn suspend(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.in_turn(Operation::Suspend, id, async move |host: Arc<Host>| host.suspend(id).await).await
    }

    async fn resume(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let spec = spec.clone();
        self.in_turn(Operation::Resume, spec.id, async move |host: Arc<Host>| host.resume(&spec).await).await
    }

    async fn connect(&self, id: WorkspaceId) -> Result<AgentStream, ProviderError> {
        self.host.connect(id).await
    }

    async fn disk_use(&self, id: WorkspaceId) -> Result<Option<DiskUse>, ProviderError> {
        // Takes no turn: whoever wants to stop or destroy it does not wait for this.
        self.host.disk_use(id).await
    }

    async fn ended_for_want_of_memory(&self, id: WorkspaceId) -> bool {
        self.host.ended_for_want_of_memory(id).await
    }

    async fn list(&self) -> Result<Vec<ObservedSandbox>, ProviderError> {
        self.host.list().await
    }
}
