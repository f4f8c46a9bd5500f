//! The servers that are hosted now.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use emergent_mcp_bridge as bridge;
use emergent_store::McpServerRow;
use emergent_types::{ServerHealth, WorkspaceId};
use time::OffsetDateTime;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use crate::Options;
use crate::crash::Crash;
use crate::logs::Logs;
use crate::supervision::State;

/// What every part works with.
pub(crate) struct Context {
    pub(crate) options: Options,
    pub(crate) workspaces: emergent_workspaces::Handle,
    pub(crate) registry: Registry,
    pub(crate) closing: AtomicBool,
    /// Moves on whenever there are other servers, or other tools of them.
    pub(crate) changes: watch::Sender<u64>,
}

impl Context {
    pub(crate) fn changed(&self) {
        self.changes.send_modify(|number| *number += 1);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }
}

/// What is asked of a supervisor.
#[derive(Debug)]
pub(crate) enum Order {
    /// A new process.
    Restart,
    /// No process any more, after so long at the latest.
    Close(Duration),
    /// The program of one client has ended, and nobody had told it to.
    Mourn(Crash),
    /// Tell when it is known what came of the last start.
    Settle(oneshot::Sender<()>),
}

/// How a program is, as its supervisor sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) state: State,
    pub(crate) restarts: u32,
    pub(crate) last_crash: Option<Crash>,
    /// Since when it runs.
    pub(crate) up_since: Option<OffsetDateTime>,
    /// When it is started again.
    pub(crate) next_start: Option<OffsetDateTime>,
}

impl Status {
    pub(crate) fn health(&self) -> ServerHealth {
        match self.state {
            State::Running { deaf: false, .. } => ServerHealth::Ok,
            State::Running { deaf: true, .. } => ServerHealth::Unresponsive,
            State::Waiting { backing_off: true, .. } => ServerHealth::BackingOff,
            State::Starting | State::Waiting { .. } | State::Ending { .. } => ServerHealth::Starting,
            State::Ended | State::Closed => ServerHealth::Ended,
        }
    }
}

/// One server.
pub(crate) struct Server {
    pub(crate) id: WorkspaceId,
    pub(crate) name: String,
    pub(crate) logs: Arc<Logs>,
    pub(crate) status: watch::Sender<Status>,
    /// Moves on with every process that is ended or lost: what belongs to it goes with it.
    pub(crate) generation: watch::Sender<u64>,
    pub(crate) dedicated: Arc<Semaphore>,
    pub(crate) orders: mpsc::Sender<Order>,
    /// What every bridge of it follows.
    pub(crate) live: bridge::Live,
    /// Held while its registration is changed, so that no change is made to what another has replaced.
    pub(crate) changing: tokio::sync::Mutex<()>,
    row: RwLock<McpServerRow>,
    bridge: Mutex<Option<bridge::Handle>>,
    edition: AtomicU64,
    supervisor: Mutex<Option<AbortHandle>>,
}

impl Server {
    pub(crate) fn new(row: McpServerRow, options: &Options) -> (Arc<Self>, mpsc::Receiver<Order>) {
        let (orders, ordered) = mpsc::channel(16);
        let status = Status {
            state: State::Starting,
            restarts: 0,
            last_crash: None,
            up_since: None,
            next_start: None,
        };
        let server = Self {
            id: row.id,
            name: row.name.clone(),
            logs: Logs::new(),
            status: watch::Sender::new(status),
            generation: watch::Sender::new(0),
            dedicated: Arc::new(Semaphore::new(options.max_dedicated)),
            orders,
            live: bridge::Live::new(rules_of(&row), call_timeout_of(&row)),
            changing: tokio::sync::Mutex::default(),
            row: RwLock::new(row),
            bridge: Mutex::new(None),
            edition: AtomicU64::new(0),
            supervisor: Mutex::new(None),
        };
        (Arc::new(server), ordered)
    }

    pub(crate) fn row(&self) -> McpServerRow {
        self.row.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_row(&self, row: McpServerRow) {
        self.live.set_tools(rules_of(&row));
        self.live.set_call_timeout(call_timeout_of(&row));
        *self.row.write().unwrap_or_else(PoisonError::into_inner) = row;
    }

    /// Which of its tools may be used.
    pub(crate) fn rules(&self) -> bridge::ToolRules {
        rules_of(&self.row.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// In which way it is run, by number.
    pub(crate) fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    /// It will be run in another way: a bridge is made for one, and clients of the old one connect anew.
    pub(crate) fn start_edition(&self) {
        self.set_bridge(None);
        self.edition.fetch_add(1, Ordering::AcqRel);
    }

    fn bridge_slot(&self) -> MutexGuard<'_, Option<bridge::Handle>> {
        self.bridge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bridge to its program; stays the same over restarts. `None` before the first.
    pub(crate) fn bridge(&self) -> Option<bridge::Handle> {
        self.bridge_slot().clone()
    }

    pub(crate) fn set_bridge(&self, bridge: Option<bridge::Handle>) {
        *self.bridge_slot() = bridge;
    }

    pub(crate) fn set_supervisor(&self, task: AbortHandle) {
        *self.supervisor.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// Nobody looks after it any more, in the middle of whatever that is.
    pub(crate) fn abandon(&self) {
        if let Some(task) = &*self.supervisor.lock().unwrap_or_else(PoisonError::into_inner) {
            task.abort();
        }
    }

    /// Asks its supervisor; nothing happens where that is over.
    pub(crate) async fn order(&self, order: Order) {
        let _over = self.orders.send(order).await;
    }

    /// Waits until it is known what came of the last start, or for so long.
    pub(crate) async fn settled(&self, patience: Duration) {
        let (reply, settled) = oneshot::channel();
        let waiting = async {
            self.order(Order::Settle(reply)).await;
            // An error means that its supervisor is over, which is settled as well.
            let _over = settled.await;
        };
        let _late = tokio::time::timeout(patience, waiting).await;
    }
}

fn rules_of(row: &McpServerRow) -> bridge::ToolRules {
    bridge::ToolRules {
        allow: row.tools_allow.as_ref().map(|names| names.iter().cloned().collect()),
        deny: row.tools_deny.iter().cloned().collect(),
    }
}

fn call_timeout_of(row: &McpServerRow) -> Duration {
    Duration::from_millis(row.call_timeout_ms.into())
}

/// Every server, by id.
#[derive(Default)]
pub(crate) struct Registry {
    servers: RwLock<BTreeMap<WorkspaceId, Arc<Server>>>,
}

impl Registry {
    pub(crate) fn insert(&self, server: Arc<Server>) {
        self.servers.write().unwrap_or_else(PoisonError::into_inner).insert(server.id, server);
    }

    pub(crate) fn remove(&self, id: WorkspaceId) {
        self.servers.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// Oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Server>> {
        self.servers.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.servers.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// By name or by id. A name that looks like an id is an id.
    pub(crate) fn find(&self, name_or_id: &str) -> Option<Arc<Server>> {
        let servers = self.servers.read().unwrap_or_else(PoisonError::into_inner);
        match name_or_id.parse::<WorkspaceId>() {
            Ok(id) => servers.get(&id).cloned(),
            Err(_) => servers.values().find(|server| server.name == name_or_id).cloned(),
        }
    }
}
