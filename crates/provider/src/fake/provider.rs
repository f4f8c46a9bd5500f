//! The fake provider.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use emergent_agent_client::AgentStream;
use emergent_types::{
    AdjustableLimits, Capabilities, DiskEnforcement, Enforcement, IsolationLevel, LimitEnforcement,
    NetworkMode, Persistence, ProviderKind, ResourceLimits, SnapshotId, WorkspaceId,
};
use tokio::sync::Mutex;

use super::faults::{Fault, Faults};
use super::sandbox::FakeSandbox;
use super::snapshots::FakeSnapshots;
use crate::{
    DiskUse, Health, ImageDefaults, NamedDemands, ObservedSandbox, ObservedSnapshot, ObservedState,
    Operation, ProviderError, Sandbox, SandboxSpec, Snapshot, StartupTimes, Usage, WorkspaceProvider,
};

/// A provider that works, isolates nothing, and fails on demand.
pub struct FakeProvider {
    kind: ProviderKind,
    isolation: IsolationLevel,
    faults: Faults,
    health: std::sync::Mutex<Health>,
    health_is_broken: std::sync::atomic::AtomicBool,
    health_is_held: tokio::sync::watch::Sender<bool>,
    can_suspend: std::sync::atomic::AtomicBool,
    sandboxes: Mutex<HashMap<WorkspaceId, Arc<Mutex<FakeSandbox>>>>,
    snapshots: FakeSnapshots,
    startup: StartupTimes,
    disk_use: std::sync::Mutex<Option<DiskUse>>,
    usage: std::sync::Mutex<HashMap<WorkspaceId, Usage>>,
    named: std::sync::Mutex<NamedDemands>,
    out_of_memory: std::sync::Mutex<HashSet<WorkspaceId>>,
    image: std::sync::Mutex<Option<ImageDefaults>>,
    progress: std::sync::Mutex<Option<String>>,
}

impl FakeProvider {
    /// A fake that passes for `kind` at a level.
    pub fn new(kind: ProviderKind, isolation: IsolationLevel) -> Self {
        Self {
            kind,
            isolation,
            faults: Faults::default(),
            health: std::sync::Mutex::new(Health::Healthy),
            health_is_broken: std::sync::atomic::AtomicBool::new(false),
            health_is_held: tokio::sync::watch::Sender::new(false),
            can_suspend: std::sync::atomic::AtomicBool::new(false),
            sandboxes: Mutex::default(),
            snapshots: FakeSnapshots::default(),
            startup: StartupTimes::default(),
            disk_use: std::sync::Mutex::default(),
            usage: std::sync::Mutex::default(),
            named: std::sync::Mutex::default(),
            out_of_memory: std::sync::Mutex::default(),
            image: std::sync::Mutex::default(),
            progress: std::sync::Mutex::default(),
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

    /// The next health checks panic.
    pub fn break_health_checks(&self) {
        self.health_is_broken.store(true, std::sync::atomic::Ordering::Release);
    }

    /// While this is so, health checks do not come to an end.
    pub fn hold_health_checks(&self, held: bool) {
        self.health_is_held.send_replace(held);
    }

    /// From now on sandboxes can stand still.
    pub fn allow_suspension(&self) {
        self.can_suspend.store(true, std::sync::atomic::Ordering::Release);
    }

    /// How far every create is, from now on.
    pub fn set_progress(&self, said: Option<&str>) {
        *self.progress.lock().expect("not poisoned") = said.map(str::to_owned);
    }

    /// What every sandbox uses of its disk from now on.
    pub fn set_disk_use(&self, used: DiskUse) {
        *self.disk_use.lock().expect("not poisoned") = Some(used);
    }

    /// What the author of every image wants to be run, from now on.
    pub fn set_image(&self, image: ImageDefaults) {
        *self.image.lock().expect("not poisoned") = Some(image);
    }

    /// What one sandbox uses from now on; nothing is known of the others.
    pub fn set_usage(&self, id: WorkspaceId, usage: Usage) {
        self.usage.lock().expect("not poisoned").insert(id, usage);
    }

    /// What the latest create was told to have been named.
    pub fn named_in_latest_create(&self) -> NamedDemands {
        *self.named.lock().expect("not poisoned")
    }

    /// The limits that a running sandbox has, if this were no fake.
    pub async fn limits_of(&self, id: WorkspaceId) -> Option<ResourceLimits> {
        self.find(id).await?.lock().await.limits()
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

    async fn hold(&self, operation: Operation, id: WorkspaceId, still: bool) -> Result<(), ProviderError> {
        let provider = self.kind;
        let work = async {
            if !self.can_suspend.load(std::sync::atomic::Ordering::Acquire) {
                return Err(ProviderError::unsupported(provider, operation, id));
            }
            let sandbox = self.find(id).await.ok_or(ProviderError::NotFound { provider, id })?;
            let is_running = sandbox.lock().await.hold(still);
            is_running.then_some(()).ok_or(ProviderError::NotRunning { provider, id })
        };
        self.faults.around(provider, operation, id, work).await
    }

    fn report(&self, id: WorkspaceId) -> Sandbox {
        Sandbox {
            provider_id: format!("fake-{id}"),
            isolation: self.isolation,
            network: NetworkMode::Isolated,
            persistence: Persistence::Home,
            disk_enforcement: DiskEnforcement::Monitored,
            image: self.image.lock().expect("not poisoned").clone(),
            warnings: vec!["the fake provider isolates nothing".to_owned()],
        }
    }

    fn step(
        &self,
        operation: Operation,
        id: WorkspaceId,
        step: &'static str,
    ) -> impl FnOnce(std::io::Error) -> ProviderError {
        let provider = self.kind;
        move |error| ProviderError::Step { provider, operation, id, step, reason: error.to_string() }
    }

    async fn make(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        if !spec.volumes.is_empty() {
            return Err(ProviderError::NotEnforceable {
                provider: self.kind,
                what: "volumes",
                reason: "the fake has no places of its own".to_owned(),
            });
        }
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
                    let sandbox =
                        FakeSandbox::make().map_err(self.step(Operation::Create, spec.id, "folder"))?;
                    sandboxes.entry(spec.id).or_insert(Arc::new(Mutex::new(sandbox))).clone()
                }
            }
        };
        sandbox.lock().await.start(spec);
        self.startup.add(clock.elapsed());
        Ok(self.report(spec.id))
    }

    async fn copy(&self, snapshot: SnapshotId, spec: &SandboxSpec) -> Result<Snapshot, ProviderError> {
        let missing = ProviderError::NotFound { provider: self.kind, id: spec.id };
        let sandbox = self.find(spec.id).await.ok_or(missing)?;
        let folder = sandbox.lock().await.folder().to_owned();
        let taken = Snapshot {
            id: snapshot,
            workspace: spec.id,
            isolation: self.isolation,
            network: spec.network,
            disk: spec.limits.disk,
        };
        let taken = self.snapshots.take(taken, &folder).await;
        taken.map_err(self.step(Operation::Snapshot, spec.id, "copy"))
    }

    async fn make_from(&self, snapshot: SnapshotId, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let missing = || ProviderError::SnapshotNotFound { provider: self.kind, snapshot };
        let taken = self.snapshots.find(snapshot).await.ok_or_else(missing)?;
        taken.check_restore(self.kind, self.isolation, spec)?;
        if self.find(spec.id).await.is_none() {
            let failed = |step| self.step(Operation::Restore, spec.id, step);
            let sandbox = FakeSandbox::make().map_err(failed("folder"))?;
            if !self.snapshots.copy_to(snapshot, sandbox.folder()).await.map_err(failed("copy"))? {
                return Err(missing());
            }
            self.sandboxes.lock().await.entry(spec.id).or_insert(Arc::new(Mutex::new(sandbox)));
        }
        self.make(spec).await
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
            suspend: self.can_suspend.load(std::sync::atomic::Ordering::Acquire),
            snapshots: true,
            warm_pool: true,
            networks: vec![NetworkMode::Isolated],
            base_image: false,
            limits: LimitEnforcement {
                cpu: Enforcement::NotEnforced,
                memory: Enforcement::NotEnforced,
                pids: Enforcement::NotEnforced,
                disk: DiskEnforcement::Monitored,
            },
            adjustable: AdjustableLimits::ALL,
            platform_needs: Vec::new(),
            runtime: None,
            startup_ms: self.startup.summary(),
            free: None,
        }
    }

    async fn health(&self) -> Health {
        let is_broken = self.health_is_broken.load(std::sync::atomic::Ordering::Acquire);
        assert!(!is_broken, "broken on purpose");
        // The sender is this very object.
        let _ = self.health_is_held.subscribe().wait_for(|held| !held).await;
        self.health.lock().expect("not poisoned").clone()
    }

    async fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        *self.named.lock().expect("not poisoned") = spec.named;
        self.faults.around(self.kind, Operation::Create, spec.id, self.make(spec)).await
    }

    fn progress(&self, _: &SandboxSpec) -> Option<String> {
        self.progress.lock().expect("not poisoned").clone()
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

    async fn usage(&self, id: WorkspaceId) -> Result<Option<Usage>, ProviderError> {
        let usage = self.usage.lock().expect("not poisoned").get(&id).copied();
        self.faults.around(self.kind, Operation::Usage, id, async { Ok(usage) }).await
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

    async fn suspend(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.hold(Operation::Suspend, id, true).await
    }

    async fn wake(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.hold(Operation::Wake, id, false).await
    }

    async fn resume(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let work = async {
            let missing = ProviderError::NotFound { provider: self.kind, id: spec.id };
            self.find(spec.id).await.ok_or(missing)?.lock().await.start(spec);
            Ok(self.report(spec.id))
        };
        self.faults.around(self.kind, Operation::Resume, spec.id, work).await
    }

    async fn adjust(&self, spec: &SandboxSpec) -> Result<(), ProviderError> {
        let (provider, id) = (self.kind, spec.id);
        let work = async {
            let sandbox = self.find(id).await.ok_or(ProviderError::NotFound { provider, id })?;
            let is_running = sandbox.lock().await.adjust(spec.limits);
            is_running.then_some(()).ok_or(ProviderError::NotRunning { provider, id })
        };
        self.faults.around(provider, Operation::Adjust, id, work).await
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

    async fn snapshot(&self, snapshot: SnapshotId, spec: &SandboxSpec) -> Result<Snapshot, ProviderError> {
        self.faults.around(self.kind, Operation::Snapshot, spec.id, self.copy(snapshot, spec)).await
    }

    async fn restore(&self, snapshot: SnapshotId, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        self.faults.around(self.kind, Operation::Restore, spec.id, self.make_from(snapshot, spec)).await
    }

    async fn delete_snapshot(&self, snapshot: SnapshotId) -> Result<(), ProviderError> {
        self.snapshots.remove(snapshot).await;
        Ok(())
    }

    async fn list_snapshots(&self) -> Result<Vec<ObservedSnapshot>, ProviderError> {
        let listed =
            async { Ok(self.snapshots.list().await.into_iter().map(ObservedSnapshot::Whole).collect()) };
        self.faults.around(self.kind, Operation::List, WorkspaceId::generate(), listed).await
    }

    async fn list(&self) -> Result<Vec<ObservedSandbox>, ProviderError> {
        let sandboxes = self.sandboxes.lock().await;
        let mut listed = Vec::with_capacity(sandboxes.len());
        for (id, sandbox) in sandboxes.iter() {
            let sandbox = sandbox.lock().await;
            let state = match (sandbox.is_running(), sandbox.is_held()) {
                (true, true) => ObservedState::Suspended,
                (true, false) => ObservedState::Running,
                (false, _) => ObservedState::Stopped,
            };
            listed.push(ObservedSandbox { id: *id, state });
        }
        Ok(listed)
    }
}
