//! The running service: registry, background tasks, start and shutdown.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use emergent_agent_client::AgentClient;
use emergent_orchestrator::Orchestrator;
use emergent_store::{Store, StoreError, TokenId, WorkspaceRow};
use emergent_types::{WorkspaceId, WorkspaceStatus};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::activity::Activity;
use crate::actor::Request;
use crate::alerts::{self, Alerts};
use crate::contact::{self, Contact};
use crate::disk_watch::{self, DiskWatch};
use crate::events::Events;
use crate::key_turns::KeyTurns;
use crate::pool::{self, Pools};
use crate::progress::Progress;
use crate::resting::Resting;
use crate::snapshots::InProgress;
use crate::usage::{self, UsageHistory};
use crate::{Handle, Options, Place, reconcile, sweeper};

/// How long a server that goes down waits for the members of its pools to go.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// The service could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// What should exist could not be read.
    #[error("cannot read the recorded workspaces: {0}")]
    Store(#[from] StoreError),
}

/// What every part of the service works with.
pub(crate) struct Context {
    pub(crate) options: Options,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) orchestrator: Orchestrator,
    pub(crate) registry: Registry,
    pub(crate) pools: Pools,
    pub(crate) snapshots: InProgress,
    pub(crate) forks: KeyTurns<(TokenId, String)>,
    /// Whoever destroys a workspace and wants a copy of it first.
    pub(crate) endings: KeyTurns<WorkspaceId>,
    pub(crate) events: Events,
    pub(crate) alerts: Alerts,
    closing: AtomicBool,
}

impl Context {
    /// A place where a test may end this server.
    pub(crate) async fn reach(&self, place: Place) {
        self.options.failpoints.reach(place).await;
    }

    /// The server is going down: nothing new is begun.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }
}

/// What an owner shares with those who use its workspace.
pub(crate) struct Presence {
    pub(crate) activity: Activity,
    pub(crate) disk: DiskWatch,
    pub(crate) usage: UsageHistory,
    pub(crate) contact: Contact,
    pub(crate) resting: Resting,
    pub(crate) progress: Progress,
    agent: Mutex<Option<AgentClient>>,
    given_up: AtomicBool,
}

impl Presence {
    pub(crate) fn new(row: &WorkspaceRow) -> Self {
        Self {
            activity: Activity::new(row.last_used_at, row.ttl_seconds),
            disk: DiskWatch::default(),
            usage: UsageHistory::default(),
            contact: Contact::default(),
            resting: Resting::default(),
            progress: Progress::default(),
            agent: Mutex::new(None),
            given_up: AtomicBool::new(false),
        }
    }

    /// An administrator wants it to be forgotten, whatever its provider still has of it.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// A client for the agent, while the workspace is ready.
    pub(crate) fn agent(&self) -> Option<AgentClient> {
        self.agent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_agent(&self, client: Option<AgentClient>) {
        *self.agent.lock().unwrap_or_else(PoisonError::into_inner) = client;
    }

    pub(crate) fn take_agent(&self) -> Option<AgentClient> {
        self.agent.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What others see of a workspace. Its owner does not hold one, so that dropping them all
/// ends the owner.
pub(crate) struct Entry {
    pub(crate) id: WorkspaceId,
    pub(crate) presence: Arc<Presence>,
    pub(crate) view: watch::Receiver<WorkspaceRow>,
    pub(crate) requests: mpsc::Sender<Request>,
}

impl Entry {
    pub(crate) fn status(&self) -> WorkspaceStatus {
        self.view.borrow().status
    }

    /// Whether it waits in a pool and is nobody's.
    pub(crate) fn is_in_pool(&self) -> bool {
        self.view.borrow().warm_pool.is_some()
    }

    /// The row as last written, with the latest use.
    pub(crate) fn row(&self) -> WorkspaceRow {
        let mut row = self.view.borrow().clone();
        row.last_used_at = row.last_used_at.max(self.presence.activity.last_used_at());
        row.expires_at = self.presence.activity.expires_at().or(row.expires_at);
        row
    }

    /// Asks the owner; `Err` when there is none any more.
    pub(crate) async fn ask(&self, request: Request) -> Result<(), Request> {
        self.requests.send(request).await.map_err(|unsent| unsent.0)
    }

    /// Tells the owner something that it may miss when it is busy: it will be told again. Returns
    /// whether it has heard it.
    pub(crate) fn tell(&self, request: Request) -> bool {
        self.requests.try_send(request).is_ok()
    }
}

/// All entries, one after the other.
type Entries<'a> = std::collections::hash_map::Values<'a, WorkspaceId, Arc<Entry>>;

/// Every workspace that has an owner task.
#[derive(Default)]
pub(crate) struct Registry {
    entries: RwLock<HashMap<WorkspaceId, Arc<Entry>>>,
}

impl Registry {
    pub(crate) fn insert(&self, id: WorkspaceId, entry: Arc<Entry>) {
        self.entries.write().unwrap_or_else(PoisonError::into_inner).insert(id, entry);
    }

    pub(crate) fn remove(&self, id: WorkspaceId) {
        self.entries.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    pub(crate) fn clear(&self) {
        self.entries.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn get(&self, id: WorkspaceId) -> Option<Arc<Entry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// Those for which this holds. There may be many thousands that have failed or are stopped, so
    /// nothing is done for the others, and this must be quick.
    pub(crate) fn filter(&self, holds: impl Fn(&Entry) -> bool) -> Vec<Arc<Entry>> {
        self.with_all(|entries| entries.filter(|entry| holds(entry)).cloned().collect())
    }

    /// Looks at all of them.
    pub(crate) fn with_all<T>(&self, look: impl FnOnce(Entries<'_>) -> T) -> T {
        look(self.entries.read().unwrap_or_else(PoisonError::into_inner).values())
    }
}

/// The running service.
pub struct Service {
    context: Arc<Context>,
    tasks: JoinSet<()>,
}

impl Service {
    /// Compares what is recorded with what exists, gives every row an owner, destroys orphans,
    /// and starts the background work.
    pub async fn start(
        options: Options,
        store: Arc<dyn Store>,
        orchestrator: Orchestrator,
    ) -> Result<Self, StartError> {
        let context = Arc::new(Context {
            pools: Pools::new(&options.pools),
            snapshots: InProgress::default(),
            forks: KeyTurns::default(),
            endings: KeyTurns::default(),
            options,
            store,
            orchestrator,
            registry: Registry::default(),
            events: Events::new(emergent_store::now()),
            alerts: Alerts::default(),
            closing: AtomicBool::new(false),
        });
        context.pools.load_size(&context).await?;
        reconcile::on_start(&context).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(sweeper::sweep_expired(context.clone()));
        tasks.spawn(sweeper::stop_idle(context.clone()));
        tasks.spawn(sweeper::pause_idle(context.clone()));
        tasks.spawn(sweeper::flush_activity(context.clone()));
        tasks.spawn(reconcile::periodically(context.clone()));
        tasks.spawn(disk_watch::watch_disks(context.clone()));
        tasks.spawn(contact::let_idle_go(context.clone()));
        tasks.spawn(pool::keeper::keep(context.clone()));
        tasks.spawn(usage::watch_usage(context.clone()));
        tasks.spawn(alerts::watch_providers(context.clone()));
        let orchestrator = context.orchestrator.clone();
        tasks.spawn(async move { orchestrator.watch_health().await });
        Ok(Self { context, tasks })
    }

    /// What the API works with.
    pub fn handle(&self) -> Handle {
        Handle::new(self.context.clone())
    }

    /// Begins nothing new, gives running calls `grace`, and writes what is unwritten.
    /// Workspaces stay up and are adopted by the next start; members of pools go.
    pub async fn shutdown(mut self, grace: Duration) {
        self.context.closing.store(true, Ordering::Release);
        let deadline = tokio::time::Instant::now() + grace;
        let is_running = |entry: &Arc<Entry>| entry.presence.activity.running() > 0;
        pool::keeper::drain(&self.context, DRAIN_LIMIT).await;
        let busy = || self.context.registry.with_all(|mut entries| entries.any(is_running));
        while busy() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.tasks.shutdown().await;
        sweeper::wake_all(&self.context).await;
        sweeper::flush(&self.context).await;
        self.let_go().await;
    }

    /// Ends like a server that is killed, as far as that is possible within one process: nothing is
    /// finished, and no member of a pool goes.
    pub async fn abandon(mut self) {
        self.context.closing.store(true, Ordering::Release);
        self.tasks.shutdown().await;
        self.let_go().await;
    }

    async fn let_go(&self) {
        // Without senders the owners end; what they had begun, the next start goes on with.
        self.context.registry.clear();
        self.context.store.close().await;
    }
}
