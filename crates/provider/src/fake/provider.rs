//! The fake provider.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use emergent_agent_client::AgentStream;
use emergent_types::{
    Capabilities, DiskEnforcement, Enforcement, IsolationLevel, LimitEnforcement, NetworkMode, Persistence,
    ProviderKind, WorkspaceId,
};
use tokio::sync::Mutex;

use super::faults::{Fault, Faults};
use super::sandbox::FakeSandbox;
use crate::{
    DiskUse, Health, NamedDemands, ObservedSandbox, ObservedState, Operation, ProviderError, Sandbox,
    SandboxSpec, StartupTimes, WorkspaceProvider,
};

/// A provider that works, isolates nothing, and fails on demand.
pub struct FakeProvider {
    kind: ProviderKind,
    isolation: IsolationLevel,
    faults: Faults,
    health: std::sync::Mutex<Health>,
    sandboxes: Mutex<HashMap<WorkspaceId, Arc<Mutex<FakeSandbox>>>>,
    startup: StartupTimes,
    disk_use: std::sync::Mutex<Option<DiskUse>>,
    named: std::sync::Mutex<NamedDemands>,
    out_of_memory: std::sync::Mutex<HashSet<WorkspaceId>>,
}

impl FakeProvider {
    /// A fake that passes for `kind` at a level.
    pub fn new(kind: ProviderKind, isolation: IsolationLevel) -> Self {
        Self {
            kind,
            isolation,
            faults: Faults::default(),
            health: std::sync::Mutex::new(Health::Healthy),
            sandboxes: Mutex::default(),
            startup: StartupTimes::default(),
            disk_use: std::sync::Mutex::default(),
            named: std::sync::Mutex::default(),
            out_of_memory: std::sync::Mutex::default(),
        }
    }

    /// Plans a fault for the next call of an operation. Several are met in order.
    pub fn plan(&self, operation: Operation, fault: Fault) {
        self.faults.push(operation, fault);
    }

    /// What the next health checks say.
    pub fn set_health(&self, health: Health) {
        *self.health.lock().expect("not poisoned") = health;
    }

    /// What every sandbox uses of its disk from now on.
    pub fn set_disk_use(&self, used: DiskUse) {
        *self.disk_use.lock().expect("not poisoned") = Some(used);
    }

    /// What the latest create was told to have been named.
    pub fn named_in_latest_create(&self) -> NamedDemands {
        *self.named.lock().expect("not poisoned")
    }

    /// The sandbox's processes die, as after a crash; its folder stays.
    pub async fn lose_sandbox(&self, id: WorkspaceId) {
        if let Some(sandbox) = self.find(id).await {
            sandbox.lock().await.stop().await;
        }
    }

    /// The same, for want of memory.
    pub async fn run_out_of_memory(&self, id: WorkspaceId) {
        self.out_of_memory.lock().expect("not poisoned").insert(id);
        self.lose_sandbox(id).await;
    }

    /// The sandbox vanishes with its folder.
    pub async fn lose_everything(&self, id: WorkspaceId) {
        self.lose_sandbox(id).await;
        self.sandboxes.lock().await.remove(&id);
    }

    async fn find(&self, id: WorkspaceId) -> Option<Arc<Mutex<FakeSandbox>>> {
        self.sandboxes.lock().await.get(&id).cloned()
    }

    fn report(&self, id: WorkspaceId) -> Sandbox {
        Sandbox {
            provider_id: format!("fake-{id}"),
            isolation: self.isolation,
            network: NetworkMode::Isolated,
            persistence: Persistence::Home,
            disk_enforcement: DiskEnforcement::Monitored,
            warnings: vec!["the fake provider isolates nothing".to_owned()],
        }
    }

    async fn make(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        if spec.network != NetworkMode::Isolated {
            return Err(ProviderError::NotEnforceable {
                provider: self.kind,
                what: "network",
                reason: "the fake has no network".to_owned(),
            });
        }
        let clock = Instant::now();
        let sandbox = {
            let mut sandboxes = self.sandboxes.lock().await;
            match sandboxes.get(&spec.id) {
                Some(sandbox) => sandbox.clone(),
                None => {
                    let sandbox = FakeSandbox::make().map_err(|error| ProviderError::Step {
                        provider: self.kind,
                        operation: Operation::Create,
                        id: spec.id,
                        step: "folder",
                        reason: error.to_string(),
                    })?;
                    sandboxes.entry(spec.id).or_insert(Arc::new(Mutex::new(sandbox))).clone()
                }
            }
        };
        sandbox.lock().await.start(spec);
        self.startup.add(clock.elapsed());
        Ok(self.report(spec.id))
    }
}

#[async_trait]
impl WorkspaceProvider for FakeProvider {
    fn kind(&self) -> ProviderKind {
        self.kind
    }

    async fn capabilities(&self) -> Capabilities {
        Capabilities {
            isolation: self.isolation,
            persistence: Some(Persistence::Home),
            suspend: false,
            snapshots: false,
            warm_pool: false,
            networks: vec![NetworkMode::Isolated],
            base_image: false,
            limits: LimitEnforcement {
                cpu: Enforcement::NotEnforced,
                memory: Enforcement::NotEnforced,
                pids: Enforcement::NotEnforced,
                disk: DiskEnforcement::Monitored,
            },
            platform_needs: Vec::new(),
            startup_ms: self.startup.summary(),
            free: None,
        }
    }

    async fn health(&self) -> Health {
        self.health.lock().expect("not poisoned").clone()
    }

    async fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        *self.named.lock().expect("not poisoned") = spec.named;
        self.faults.around(self.kind, Operation::Create, spec.id, self.make(spec)).await
    }

    async fn destroy(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        let work = async {
            self.lose_everything(id).await;
            Ok(())
        };
        self.faults.around(self.kind, Operation::Destroy, id, work).await
    }

    async fn disk_use(&self, id: WorkspaceId) -> Result<Option<DiskUse>, ProviderError> {
        let used = *self.disk_use.lock().expect("not poisoned");
        self.faults.around(self.kind, Operation::Measure, id, async { Ok(used) }).await
    }

    async fn ended_for_want_of_memory(&self, id: WorkspaceId) -> bool {
        self.out_of_memory.lock().expect("not poisoned").remove(&id)
    }

    async fn stop(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        let work = async {
            self.lose_sandbox(id).await;
            Ok(())
        };
        self.faults.around(self.kind, Operation::Stop, id, work).await
    }

    async fn resume(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let work = async {
            let missing = ProviderError::NotFound { provider: self.kind, id: spec.id };
            self.find(spec.id).await.ok_or(missing)?.lock().await.start(spec);
            Ok(self.report(spec.id))
        };
        self.faults.around(self.kind, Operation::Resume, spec.id, work).await
    }

    async fn connect(&self, id: WorkspaceId) -> Result<AgentStream, ProviderError> {
        let work = async {
            let missing = ProviderError::NotFound { provider: self.kind, id };
            let sandbox = self.find(id).await.ok_or(missing)?;
            let stream = sandbox.lock().await.connect();
            stream.ok_or(ProviderError::NotRunning { provider: self.kind, id })
        };
        self.faults.around(self.kind, Operation::Connect, id, work).await
    }

    async fn list(&self) -> Result<Vec<ObservedSandbox>, ProviderError> {
        let sandboxes = self.sandboxes.lock().await;
        let mut listed = Vec::with_capacity(sandboxes.len());
        for (id, sandbox) in sandboxes.iter() {
            let running = sandbox.lock().await.is_running();
            let state = if running { ObservedState::Running } else { ObservedState::Stopped };
            listed.push(ObservedSandbox { id: *id, state });
        }
        Ok(listed)
    }
}
