use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::time::Instant;

use crate::json::{IdKey, Message};
use crate::mailbox::Mailbox;
use crate::{Options, RawJson};

/// How many requests of a server may wait for one client.
const MOST_ASKED: usize = 64;

/// A lock whose holder never panics half way: every change under it is one step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call, unique over all clients and processes of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallNumber(pub(crate) u64);

/// A client, unique over all processes of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ClientId(pub(crate) u64);

/// A client as the bridge knows it. It outlives processes.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: ClientId,
    pub(crate) mailbox: Mailbox,
    /// How many calls it may still open.
    pub(crate) calls: Arc<Semaphore>,
    introduction: Mutex<Option<Introduction>>,
    /// The log level it asked a server of the newer era for.
    pub(crate) level: Mutex<Option<String>>,
    open: Mutex<HashMap<IdKey, Vec<Arc<CallState>>>>,
    asked: Mutex<AskedTable>,
}

/// What a client said in its `initialize`, and what it was told.
#[derive(Debug, Clone)]
pub(crate) struct Introduction {
    pub(crate) version: &'static str,
    /// JSON.
    pub(crate) capabilities: String,
    /// JSON.
    pub(crate) info: String,
}

/// Whether a call is still wanted, as its client and the bridge's task both see it.
#[derive(Debug)]
pub(crate) struct CallState {
    pub(crate) number: CallNumber,
    cancelled: AtomicBool,
    told: Notify,
    /// Until when it is waited for, if that is later than was meant at first.
    extended: Mutex<Option<Instant>>,
}

impl CallState {
    pub(crate) fn new(number: CallNumber) -> Arc<Self> {
        Arc::new(Self {
            number,
            cancelled: AtomicBool::new(false),
            told: Notify::new(),
            extended: Mutex::default(),
        })
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.told.notify_one();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    pub(crate) fn extend(&self, until: Instant) {
        *lock(&self.extended) = Some(until);
    }

    pub(crate) fn extended(&self) -> Option<Instant> {
        *lock(&self.extended)
    }

    /// Ends when the call is cancelled. For one waiter.
    pub(crate) async fn cancelled(&self) {
        while !self.is_cancelled() {
            self.told.notified().await;
        }
    }
}

#[derive(Debug, Default)]
struct AskedTable {
    next: u64,
    open: HashMap<u64, Asked>,
}

/// Who asked the client something.
#[derive(Debug)]
pub(crate) enum Asked {
    /// The process of this epoch, under this id.
    Server { epoch: u64, id: String },
    /// A call that needs input.
    Round(oneshot::Sender<Message>),
}

impl Session {
    pub(crate) fn new(id: ClientId, options: &Options) -> Arc<Self> {
        Arc::new(Self {
            id,
            // A listen request has an acknowledgement and three lists to tell about.
            mailbox: Mailbox::new(
                options.max_mailbox,
                options.max_mailbox_bytes,
                4 * options.max_subscriptions + 4,
            ),
            calls: Arc::new(Semaphore::new(options.max_calls_per_client.clamp(1, Semaphore::MAX_PERMITS))),
            introduction: Mutex::default(),
            level: Mutex::default(),
            open: Mutex::default(),
            asked: Mutex::default(),
        })
    }

    pub(crate) fn introduce(&self, introduction: Introduction) {
        *lock(&self.introduction) = Some(introduction);
    }

    /// What it said in its `initialize`; `None` before that and for clients of the newer era.
    pub(crate) fn introduction(&self) -> Option<Introduction> {
        lock(&self.introduction).clone()
    }

    pub(crate) fn open(&self, id: IdKey, call: Arc<CallState>) {
        lock(&self.open).entry(id).or_default().push(call);
    }

    pub(crate) fn close(&self, id: &IdKey, number: CallNumber) {
        let mut open = lock(&self.open);
        if let Some(calls) = open.get_mut(id) {
            calls.retain(|call| call.number != number);
            if calls.is_empty() {
                open.remove(id);
            }
        }
    }

    /// The open calls of an id. There is one unless the client breaks the rules.
    pub(crate) fn open_calls(&self, id: &IdKey) -> Vec<Arc<CallState>> {
        lock(&self.open).get(id).cloned().unwrap_or_default()
    }

    /// Gives out the id under which the client is asked; `None` if it is asked too much already.
    pub(crate) fn ask(&self, asked: Asked) -> Option<u64> {
        let mut table = lock(&self.asked);
        if table.open.len() >= MOST_ASKED {
            return None;
        }
        table.next += 1;
        let id = table.next;
        table.open.insert(id, asked);
        Some(id)
    }

    pub(crate) fn answered(&self, id: u64) -> Option<Asked> {
        lock(&self.asked).open.remove(&id)
    }

    /// Forgets a request that the server takes back, and says under which id the client knows it.
    pub(crate) fn take_back(&self, server_id: &IdKey) -> Option<u64> {
        let mut table = lock(&self.asked);
        let known = |asked: &Asked| matches!(asked, Asked::Server { id, .. } if IdKey::of(id).as_ref() == Some(server_id));
        let id = table.open.iter().find(|(_, asked)| known(asked)).map(|(id, _)| *id)?;
        table.open.remove(&id);
        Some(id)
    }

    /// Forgets what the server asked: under which ids the client knows it, and the server.
    pub(crate) fn forget_server(&self) -> Vec<(u64, String)> {
        let mut table = lock(&self.asked);
        let gone = table.open.extract_if(|_, asked| matches!(asked, Asked::Server { .. }));
        let ids = gone.filter_map(|(id, asked)| match asked {
            Asked::Server { id: servers, .. } => Some((id, servers)),
            Asked::Round(_) => None,
        });
        ids.collect()
    }
}

/// `notifications/cancelled`.
pub(crate) fn cancelled_notice(id: &str, reason: &str) -> RawJson {
    let reason = crate::json::quoted(reason);
    RawJson::known(format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":{reason}}}}}"#
    ))
}
