//! The provider: what the trait asks, turned into work on a thread that may block.

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use emergent_agent_client::AgentStream;
use emergent_host_net::{Cidr, HostNetwork};
use emergent_provider::{
    DiskUse, Health, ObservedSandbox, ObservedSnapshot, Operation, ProviderError, Sandbox, SandboxSpec,
    Snapshot, SnapshotTurns, StartupTimes, Usage, WorkspaceProvider,
};
use emergent_types::{
    Capabilities, IsolationLevel, NetworkMode, Persistence, ProviderKind, SnapshotId, WorkspaceId,
};
use rustix::fs::{CWD, Mode, OFlags, openat};
use tokio::net::UnixStream;
use tokio::sync::{OwnedMutexGuard, Semaphore};

use crate::health::Probe;
use crate::launch::StepTiming;
use crate::layout::{AGENT_SOCKET, Layout};
use crate::means::Means;
use crate::options::{Options, Withheld};
use crate::prepared::Preparation;
use crate::state::SandboxRecord;
use crate::uid_range::UidRanges;

/// This provider's name in errors.
pub(crate) const KIND: ProviderKind = ProviderKind::Local;

/// How long a full queue of connections is waited for.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Sandboxes made of namespaces on this host.
pub struct LocalProvider {
    host: Arc<Host>,
    /// Bounds how many helpers run at once: each keeps a core busy for its few milliseconds,
    /// and more of them than cores only make every one slower.
    launches: Arc<Semaphore>,
    /// One change of a snapshot at a time.
    snapshots: SnapshotTurns,
    /// One operation at a time per sandbox.
    busy: Mutex<HashMap<WorkspaceId, Arc<tokio::sync::Mutex<()>>>>,
}

/// Everything operations share. Their code is in the files named after them.
pub(crate) struct Host {
    pub(crate) options: Options,
    pub(crate) withheld: Withheld,
    pub(crate) layout: Layout,
    pub(crate) ids: UidRanges,
    pub(crate) startup: StartupTimes,
    pub(crate) preparation: Preparation,
    pub(crate) probe: Probe,
    pub(crate) network: HostNetwork,
    /// Launches under way; while there are any, the installation's group is not removed.
    pub(crate) launching: Mutex<usize>,
    pub(crate) latest_steps: Mutex<Vec<StepTiming>>,
}

impl LocalProvider {
    /// A provider that has touched nothing yet: what it needs is looked at when it is first
    /// asked for something, and [`health`](WorkspaceProvider::health) says what is missing.
    pub fn new(options: Options) -> Self {
        Self::withholding(options, Withheld::default())
    }

    /// A provider that does without some of what the host has.
    pub fn withholding(options: Options, withheld: Withheld) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            host: Arc::new(Host {
                layout: Layout::new(options.data_dir.clone(), options.installation),
                ids: UidRanges::new(options.installation),
                startup: StartupTimes::default(),
                preparation: Preparation::default(),
                probe: Probe::default(),
                network: HostNetwork::new(emergent_host_net::Options::new(options.installation)),
                launching: Mutex::new(0),
                latest_steps: Mutex::new(Vec::new()),
                withheld,
                options,
            }),
            launches: Arc::new(Semaphore::new(2 * cores)),
            snapshots: SnapshotTurns::default(),
            busy: Mutex::new(HashMap::new()),
        }
    }

    /// Opens ranges of addresses to sandboxes that are denied by default. Only before anything
    /// else was asked.
    pub fn with_egress_allow(mut self, ranges: Vec<Cidr>) -> Self {
        if let Some(host) = Arc::get_mut(&mut self.host) {
            let mut options = emergent_host_net::Options::new(host.options.installation);
            options.egress_allow = ranges;
            host.network = HostNetwork::new(options);
        }
        self
    }

    /// How long each step of the latest launch took, in order; empty before the first.
    pub fn latest_launch(&self) -> Vec<StepTiming> {
        self.host.latest_steps.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs `work` for one sandbox where it may block, after everything else that was asked
    /// for that sandbox. Goes on to its end even when the caller stops waiting.
    async fn run<T: Send + 'static>(
        &self,
        operation: Operation,
        id: WorkspaceId,
        work: impl FnOnce(&Host) -> Result<T, ProviderError> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let turn = self.turn(id).await;
        let host = Arc::clone(&self.host);
        let result = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&host)
        })
        .await;
        self.forget_idle();
        result.unwrap_or_else(|panic| Err(step_error(operation, id, "blocking task", panic)))
    }

    async fn turn(&self, id: WorkspaceId) -> OwnedMutexGuard<()> {
        let lock =
            Arc::clone(self.busy.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_default());
        lock.lock_owned().await
    }

    fn forget_idle(&self) {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        busy.retain(|_, lock| Arc::strong_count(lock) > 1);
    }

    /// As [`run`](Self::run), when it is this launch's turn.
    async fn run_launch(
        &self,
        operation: Operation,
        spec: &SandboxSpec,
        work: impl FnOnce(&Host, &SandboxSpec) -> Result<Sandbox, ProviderError> + Send + 'static,
    ) -> Result<Sandbox, ProviderError> {
        let means = self.host.means().map_err(|error| ProviderError::Unavailable {
            provider: KIND,
            reason: format!("what the host has: {error}"),
        })?;
        crate::enforceable::check(spec)?;
        if operation == Operation::Create {
            crate::enforceable::check_limits(&means, spec.named, means.disk)?;
        }
        let permit = Arc::clone(&self.launches).acquire_owned().await;
        let spec = spec.clone();
        self.run(operation, spec.id, move |host| {
            let _permit = permit;
            host.check_network(&spec)?;
            // What was asked for, since it could not have been made otherwise.
            work(host, &spec).map(|made| Sandbox { network: spec.network, ..made })
        })
        .await
    }
}

#[async_trait]
impl WorkspaceProvider for LocalProvider {
    fn kind(&self) -> ProviderKind {
        KIND
    }

    async fn capabilities(&self) -> Capabilities {
        let host = Arc::clone(&self.host);
        let asked =
            tokio::task::spawn_blocking(move || crate::capabilities::of(&host, host.networks())).await;
        asked.unwrap_or_else(|_| crate::capabilities::of(&self.host, vec![NetworkMode::Isolated]))
    }

    async fn why_no_network(&self, mode: NetworkMode) -> Option<String> {
        let host = Arc::clone(&self.host);
        tokio::task::spawn_blocking(move || host.why_no_network(mode)).await.ok()?
    }

    async fn health(&self) -> Health {
        let host = Arc::clone(&self.host);
        tokio::task::spawn_blocking(move || host.health())
            .await
            .unwrap_or_else(|panic| Health::Unhealthy { reason: format!("the health check failed: {panic}") })
    }

    async fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        self.run_launch(Operation::Create, spec, Host::create).await
    }

    async fn destroy(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.run(Operation::Destroy, id, move |host| host.destroy(id)).await
    }

    async fn stop(&self, id: WorkspaceId) -> Result<(), ProviderError> {
        self.run(Operation::Stop, id, move |host| host.stop(id)).await
    }

    async fn resume(&self, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        self.run_launch(Operation::Resume, spec, Host::resume).await
    }

    async fn adjust(&self, spec: &SandboxSpec) -> Result<(), ProviderError> {
        let spec = spec.clone();
        self.run(Operation::Adjust, spec.id, move |host| host.adjust(&spec)).await
    }

    async fn connect(&self, id: WorkspaceId) -> Result<AgentStream, ProviderError> {
        let folder = openat(
            CWD,
            self.host.layout.sandbox(id),
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|_| ProviderError::NotFound { provider: KIND, id })?;
        // Through the folder's descriptor: a socket's path may be 107 bytes long, a data
        // folder's longer.
        let path = format!("/proc/self/fd/{}/{AGENT_SOCKET}", folder.as_raw_fd());
        let deadline = Instant::now() + CONNECT_LIMIT;
        loop {
            match UnixStream::connect(&path).await {
                Ok(stream) => return Ok(Box::new(stream)),
                // The queue of connections is full.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    return Err(step_error(Operation::Connect, id, "agent socket", error));
                }
                // No socket, or nobody listens on it.
                Err(_) => return Err(ProviderError::NotRunning { provider: KIND, id }),
            }
        }
    }

    async fn disk_use(&self, id: WorkspaceId) -> Result<Option<DiskUse>, ProviderError> {
        let host = Arc::clone(&self.host);
        // Takes no turn: whoever wants to stop or destroy it does not wait for this.
        tokio::task::spawn_blocking(move || host.disk_use(id))
            .await
            .unwrap_or_else(|panic| Err(step_error(Operation::Measure, id, "blocking task", panic)))
    }

    async fn snapshot(&self, snapshot: SnapshotId, spec: &SandboxSpec) -> Result<Snapshot, ProviderError> {
        let (id, spec) = (spec.id, spec.clone());
        let turn = self.snapshots.to_change(snapshot).await;
        self.run(Operation::Snapshot, id, move |host| {
            let _turn = turn;
            host.snapshot(snapshot, &spec)
        })
        .await
    }

    async fn restore(&self, snapshot: SnapshotId, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        // The image is the snapshot's, which is none.
        let spec = SandboxSpec { base_image: None, ..spec.clone() };
        let turn = self.snapshots.to_use(snapshot).await;
        self.run_launch(Operation::Restore, &spec, move |host, spec| {
            let _turn = turn;
            host.restore(snapshot, spec)
        })
        .await
    }

    async fn delete_snapshot(&self, snapshot: SnapshotId) -> Result<(), ProviderError> {
        let (host, turn) = (Arc::clone(&self.host), self.snapshots.to_change(snapshot).await);
        let deleted = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            host.delete_snapshot(snapshot)
        });
        let panicked = |panic| Err(crate::snapshot::step_error(snapshot, "blocking task", panic));
        deleted.await.unwrap_or_else(panicked)
    }

    async fn list_snapshots(&self) -> Result<Vec<ObservedSnapshot>, ProviderError> {
        let host = Arc::clone(&self.host);
        tokio::task::spawn_blocking(move || host.list_snapshots())
            .await
            .unwrap_or_else(|panic| Err(ProviderError::List { provider: KIND, reason: panic.to_string() }))
    }

    async fn usage(&self, id: WorkspaceId) -> Result<Option<Usage>, ProviderError> {
        let host = Arc::clone(&self.host);
        // Takes no turn either.
        tokio::task::spawn_blocking(move || host.usage(id).map(Some))
            .await
            .unwrap_or_else(|panic| Err(step_error(Operation::Usage, id, "blocking task", panic)))
    }

    async fn list(&self) -> Result<Vec<ObservedSandbox>, ProviderError> {
        let host = Arc::clone(&self.host);
        tokio::task::spawn_blocking(move || host.list())
            .await
            .unwrap_or_else(|panic| Err(ProviderError::List { provider: KIND, reason: panic.to_string() }))
    }
}

/// What a sandbox of this provider is.
pub(crate) fn sandbox(layout: &Layout, id: WorkspaceId, means: &Means) -> Sandbox {
    let disk = SandboxRecord::load(&layout.sandbox(id)).map_or(means.disk, |record| record.disk);
    let mut warnings = vec![
        "isolation level container is the weakest: the sandbox shares the host's kernel, and a flaw in \
         that kernel may let it out"
            .to_owned(),
    ];
    warnings.extend(crate::enforceable::dropped(means, disk));
    Sandbox {
        provider_id: layout.group(id),
        isolation: IsolationLevel::Container,
        network: NetworkMode::Isolated,
        persistence: Persistence::Full,
        disk_enforcement: disk.enforcement(),
        image: None,
        warnings,
    }
}

/// A step that failed.
pub(crate) fn step_error(
    operation: Operation,
    id: WorkspaceId,
    step: &'static str,
    reason: impl std::fmt::Display,
) -> ProviderError {
    ProviderError::Step { provider: KIND, operation, id, step, reason: reason.to_string() }
}
