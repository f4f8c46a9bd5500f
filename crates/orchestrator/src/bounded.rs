//! A provider that always answers: whatever it is asked ends in time, or is given up.
//!
//! Providers bound their own steps, and know best how long those may take. These limits are the wall behind
//! that: no mistake of theirs lets anybody wait for ever.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use emergent_agent_client::AgentStream;
use emergent_provider::{
    DiskUse, Health, ObservedSandbox, ObservedSnapshot, Operation, ProviderError, Sandbox, SandboxSpec,
    Snapshot, Usage, VolumeName, WorkspaceProvider,
};
use emergent_types::{
    AdjustableLimits, Capabilities, DiskEnforcement, Enforcement, IsolationLevel, LimitEnforcement,
    NetworkMode, ProviderKind, SnapshotId, WorkspaceId,
};

use crate::question::Question;

/// How long providers may take, and how often they are looked after.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// For what may have to fetch an image or copy a disk.
    pub making: Duration,
    /// For everything else.
    pub other: Duration,
    /// For saying what they can do, which everybody waits for.
    pub answering: Duration,
    /// Between two checks of their health.
    pub check_every: Duration,
    /// How long a start waits for their first checks.
    pub start_patience: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            making: Duration::from_secs(45 * 60),
            other: Duration::from_secs(3 * 60),
            answering: Duration::from_secs(5),
            check_every: Duration::from_secs(30),
            start_patience: Duration::from_secs(15),
        }
    }
}

/// A provider that always answers.
pub struct Bounded {
    provider: Arc<dyn WorkspaceProvider>,
    pace: Pace,
    what_it_can: Question,
    why_it_cannot: Question,
    /// What it said last.
    known: Mutex<Option<Capabilities>>,
}

impl Bounded {
    /// This one, with limits.
    pub fn new(provider: Arc<dyn WorkspaceProvider>, pace: Pace) -> Self {
        Self {
            provider,
            pace,
            what_it_can: Question::default(),
            why_it_cannot: Question::default(),
            known: Mutex::default(),
        }
    }

    /// What it can do; what it said last where it does not answer in time, and `None` where it never has.
    pub(crate) async fn known_capabilities(&self) -> Option<Capabilities> {
        let (kind, limit) = (self.provider.kind(), self.pace.answering);
        let was_not_answered = self.what_it_can.was_not_answered();
        let said = self.what_it_can.ask(limit, self.provider.capabilities()).await;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match said {
            Some(said) => *known = Some(said),
            None => {
                if !was_not_answered {
                    tracing::warn!(provider = %kind,
                        "provider {kind} did not say within {limit:?} what it can do");
                }
                // What is left on a host changes all the time.
                if let Some(known) = known.as_mut() {
                    known.free = None;
                }
            }
        }
        known.clone()
    }

    async fn within<T>(
        &self,
        limit: Duration,
        operation: Operation,
        id: WorkspaceId,
        work: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        let provider = self.provider.kind();
        let late = |_| ProviderError::TimedOut { provider, operation, id, limit };
        tokio::time::timeout(limit, work).await.map_err(late)?
    }

    /// The same for what concerns no sandbox.
    async fn listed<T>(
        &self,
        work: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        let (provider, limit) = (self.provider.kind(), self.pace.other);
        let late = |_| ProviderError::List { provider, reason: format!("it took longer than {limit:?}") };
        tokio::time::timeout(limit, work).await.map_err(late)?
    }
}

#[async_trait]
impl WorkspaceProvider for Bounded {
    fn kind(&self) -> ProviderKind {
        self.provider.kind()
    }

    async fn capabilities(&self) -> Capabilities {
        self.known_capabilities().await.unwrap_or_else(nothing_promised)
    }

    async fn why_no_network(&self, mode: NetworkMode) -> Option<String> {
        // Who does not even say what it can do is not waited for a second time.
        if self.what_it_can.was_not_answered() {
            return None;
        }
        let why = self.provider.why_no_network(mode);
        self.why_it_cannot.ask(self.pace.answering, why).await.flatten()
    }

    // Whoever asks has a deadline of their own.
    async fn health(&self) -> Health {
        self.provider.health().await
    }

    async fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let work = self.provider.create(spec);
        self.within(self.pace.making, Operation::Create, spec.id, work).await
    }

    fn progress(&self, spec: &SandboxSpec) -> Option<String> {
        self.provider.progress(spec)
    }

    async fn destroy(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        let work = self.provider.destroy(id);
        self.within(self.pace.other, Operation::Destroy, id, work).await
    }

    async fn stop(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.within(self.pace.other, Operation::Stop, id, self.provider.stop(id)).await
    }

    async fn suspend(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        let work = self.provider.suspend(id);
        self.within(self.pace.other, Operation::Suspend, id, work).await
    }

    async fn wake(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.within(self.pace.other, Operation::Wake, id, self.provider.wake(id)).await
    }

    async fn resume(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let work = self.provider.resume(spec);
        self.within(self.pace.making, Operation::Resume, spec.id, work).await
    }

    async fn adjust(&self, spec: &SandboxSpec) -> Result<(), ProviderError> {
        let work = self.provider.adjust(spec);
        self.within(self.pace.other, Operation::Adjust, spec.id, work).await
    }

    async fn connect(&self, id: WorkspaceId) -> Result<AgentStream, ProviderError> {
        let work = self.provider.connect(id);
        self.within(self.pace.other, Operation::Connect, id, work).await
    }

    fn has_costly_streams(&self, id: WorkspaceId) -> bool {
        self.provider.has_costly_streams(id)
    }

    async fn disk_use(&self, id: WorkspaceId) -> Result<Option<DiskUse>, ProviderError> {
        let work = self.provider.disk_use(id);
        self.within(self.pace.making, Operation::Measure, id, work).await
    }

    async fn usage(&self, id: WorkspaceId) -> Result<Option<Usage>, ProviderError> {
        self.within(self.pace.other, Operation::Usage, id, self.provider.usage(id)).await
    }

    async fn ended_for_want_of_memory(&self, id: WorkspaceId) -> bool {
        let asked = self.provider.ended_for_want_of_memory(id);
        tokio::time::timeout(self.pace.other, asked).await.unwrap_or(false)
    }

    async fn snapshot(&self, snapshot: SnapshotId, spec: &SandboxSpec) -> Result<Snapshot, ProviderError> {
        let work = self.provider.snapshot(snapshot, spec);
        self.within(self.pace.making, Operation::Snapshot, spec.id, work).await
    }

    async fn restore(&self, snapshot: SnapshotId, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let work = self.provider.restore(snapshot, spec);
        self.within(self.pace.making, Operation::Restore, spec.id, work).await
    }

    async fn delete_snapshot(&self, snapshot: SnapshotId) -> Result<(), ProviderError> {
        self.listed(self.provider.delete_snapshot(snapshot)).await
    }

    async fn list_snapshots(&self) -> Result<Vec<ObservedSnapshot>, ProviderError> {
        self.listed(self.provider.list_snapshots()).await
    }

    async fn remove_volume(&self, volume: &VolumeName) -> Result<(), ProviderError> {
        self.listed(self.provider.remove_volume(volume)).await
    }

    async fn list_volumes(&self) -> Result<Vec<VolumeName>, ProviderError> {
        self.listed(self.provider.list_volumes()).await
    }

    async fn list(&self) -> Result<Vec<ObservedSandbox>, ProviderError> {
        self.listed(self.provider.list()).await
    }
}

/// What is promised of a provider that has never said what it can do.
fn nothing_promised() -> Capabilities {
    Capabilities {
        isolation: IsolationLevel::Container,
        persistence: None,
        suspend: false,
        snapshots: false,
        warm_pool: false,
        networks: Vec::new(),
        base_image: false,
        limits: LimitEnforcement {
            cpu: Enforcement::NotEnforced,
            memory: Enforcement::NotEnforced,
            pids: Enforcement::NotEnforced,
            disk: DiskEnforcement::Monitored,
        },
        adjustable: AdjustableLimits::NONE,
        platform_needs: Vec::new(),
        runtime: None,
        startup_ms: None,
        free: None,
    }
}
