use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout_at};

use crate::command::{Answer, Command, Frame, Hold, Submission, Task};
use crate::era::{Era, Server};
use crate::error::{CallError, EndReason};
use crate::json::{Message, RawJson, meta_member};
use crate::live::Live;
use crate::options::Options;
use crate::rules::ToolRules;
use crate::session::{CallNumber, CallState, ClientId, Session, lock};
use crate::stats::Counters;

/// Where the process is in its life, as everybody may watch.
#[derive(Debug, Clone)]
pub enum Phase {
    /// The handshake is going on.
    Starting,
    /// Calls go through.
    Ready(Arc<Server>),
    /// It is gone. It comes back with [`Ended::restart`](crate::Ended::restart).
    Ended {
        /// Why.
        reason: Arc<EndReason>,
        /// Since when.
        at: Instant,
    },
}

/// What clients and the task that owns the process share. Clients outlive processes, so they are here.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) options: Options,
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) sessions: Mutex<BTreeMap<ClientId, Arc<Session>>>,
    pub(crate) departures: Departures,
    pub(crate) counters: Counters,
    pub(crate) closing: Notify,
    pub(crate) live: Live,
    /// Units of bytes that may wait for the server.
    waiting: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    numbers: AtomicU64,
}

/// Who left: told by destructors, which cannot wait for room in a queue. Each client and each
/// call leaves once, so this is as bounded as they are.
#[derive(Debug, Default)]
pub(crate) struct Departures {
    gone: Mutex<Vec<Departure>>,
    pub(crate) news: Notify,
}

#[derive(Debug)]
pub(crate) enum Departure {
    Client(Arc<Session>),
    Call(CallNumber),
}

impl Departures {
    pub(crate) fn push(&self, departure: Departure) {
        lock(&self.gone).push(departure);
        self.news.notify_one();
    }

    pub(crate) fn take(&self) -> Vec<Departure> {
        std::mem::take(&mut lock(&self.gone))
    }
}

impl Hub {
    pub(crate) fn new(options: Options) -> Arc<Self> {
        Arc::new(Self {
            phase: watch::Sender::new(Phase::Starting),
            sessions: Mutex::default(),
            departures: Departures::default(),
            counters: Counters::default(),
            closing: Notify::new(),
            live: options
                .live
                .clone()
                .unwrap_or_else(|| Live::new(options.tools.clone(), options.call_timeout)),
            waiting: Arc::new(Semaphore::new(options.waiting_units().min(Semaphore::MAX_PERMITS))),
            calls: Arc::new(Semaphore::new(options.max_calls.clamp(1, Semaphore::MAX_PERMITS))),
            numbers: AtomicU64::new(0),
            options,
        })
    }

    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn rules(&self) -> Arc<ToolRules> {
        self.live.tools()
    }

    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        lock(&self.sessions).values().cloned().collect()
    }

    pub(crate) fn session(&self, id: ClientId) -> Option<Arc<Session>> {
        lock(&self.sessions).get(&id).cloned()
    }
}

/// What handles and clients hold. The bridge ends when the last one is gone.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) hub: Arc<Hub>,
    pub(crate) commands: mpsc::Sender<Command>,
}

/// A time so much later, or one that nobody lives to see.
pub(crate) fn after(start: Instant, time: Duration) -> Instant {
    const AGES: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    start + time.min(AGES)
}

/// When a call is given up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) timeout: Duration,
    pub(crate) until: Instant,
}

impl Patience {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { timeout, until: after(Instant::now(), timeout) }
    }

    pub(crate) async fn within<T>(&self, work: impl Future<Output = T>) -> Result<T, CallError> {
        timeout_at(self.until, work).await.map_err(|_| CallError::TimedOut(self.timeout))
    }
}

impl Patience {
    /// Waits as long as the call is waited for, which may become longer meanwhile.
    pub(crate) async fn within_extended<T>(
        &self,
        state: &CallState,
        work: impl Future<Output = T>,
    ) -> Result<T, CallError> {
        let mut work = std::pin::pin!(work);
        let mut until = self.until;
        loop {
            if let Ok(done) = timeout_at(until, &mut work).await {
                return Ok(done);
            }
            match state.extended() {
                Some(later) if later > until => until = later,
                _ => return Err(CallError::TimedOut(self.timeout)),
            }
        }
    }
}

/// A call on its way to the task that owns the process.
pub(crate) struct Job {
    pub(crate) message: Message,
    pub(crate) task: Task,
    pub(crate) state: Arc<CallState>,
    pub(crate) session: Option<Arc<Session>>,
    /// `None` waits for ever.
    pub(crate) patience: Option<Patience>,
    /// The era that the message was written for.
    pub(crate) era: Era,
}

/// An answer that is still to come.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) answered: oneshot::Receiver<Answer>,
    #[expect(dead_code, reason = "held, not read")]
    pub(crate) hold: Option<Arc<Hold>>,
}

impl Shared {
    /// The server, once it is ready.
    pub(crate) async fn ready(&self, patience: &Patience) -> Result<Arc<Server>, CallError> {
        let mut phase = self.hub.phase.subscribe();
        loop {
            let (until, failure) = match &*phase.borrow_and_update() {
                Phase::Ready(server) => return Ok(server.clone()),
                Phase::Starting => (patience.until, CallError::TimedOut(patience.timeout)),
                Phase::Ended { reason, at } => {
                    let failure = CallError::Ended { reason: reason.clone(), sent: false };
                    if self.commands.is_closed() {
                        return Err(failure);
                    }
                    (patience.until.min(after(*at, self.hub.options.restart_grace)), failure)
                }
            };
            if timeout_at(until, phase.changed()).await.is_err() {
                return Err(failure);
            }
        }
    }

    /// Hands a call over, as soon as there is room for it.
    pub(crate) async fn submit(&self, job: Job) -> Result<Pending, CallError> {
        let limit = self.hub.options.max_line_bytes;
        let bytes = job.message.text.as_str().len();
        // The id that replaces the client's, and its progress token, may be longer by this much.
        if bytes + 64 > limit {
            return Err(CallError::TooLong { bytes, limit });
        }
        let token = meta_member(&job.message, "progressToken")?;
        let admitted = async {
            let hold = match job.task {
                Task::Listen(_) => None,
                _ => Some(self.hold(job.session.as_deref()).await),
            };
            let space = self.space(bytes).await;
            let place = self.commands.reserve().await;
            (hold, space, place)
        };
        let admitted = async {
            tokio::select! {
                admitted = admitted => Ok(admitted),
                () = job.state.cancelled() => Err(CallError::Cancelled),
            }
        };
        let (hold, space, place) = match &job.patience {
            Some(patience) => patience.within(admitted).await??,
            None => admitted.await?,
        };
        let Ok(place) = place else { return Err(self.ended(false)) };
        let (answer, answered) = oneshot::channel();
        let hold = hold.map(Arc::new);
        let pending = Pending { answered, hold: hold.clone() };
        place.send(Command::Call(Submission {
            message: job.message,
            token,
            task: job.task,
            state: job.state,
            session: job.session,
            patience: job.patience,
            era: job.era,
            answer,
            hold,
            space,
        }));
        Ok(pending)
    }

    /// Hands over what the server is told without an answer.
    pub(crate) async fn write(&self, text: RawJson, epoch: Option<u64>) -> Result<(), CallError> {
        let (bytes, limit) = (text.as_str().len(), self.hub.options.max_line_bytes);
        if bytes > limit {
            return Err(CallError::TooLong { bytes, limit });
        }
        let patience = Patience::new(self.hub.live.call_timeout());
        let space = patience.within(self.space(bytes)).await?;
        let command = Command::Write { frame: Frame { text, space }, epoch };
        patience.within(self.commands.send(command)).await?.map_err(|_| self.ended(false))
    }

    /// The error for a process that is gone.
    pub(crate) fn ended(&self, sent: bool) -> CallError {
        let reason = match &*self.hub.phase.borrow() {
            Phase::Ended { reason, .. } => reason.clone(),
            _ => Arc::new(EndReason::Closed),
        };
        CallError::Ended { reason, sent }
    }

    async fn hold(&self, session: Option<&Session>) -> Hold {
        let of_client = match session {
            Some(session) => session.calls.clone().acquire_owned().await.ok(),
            None => None,
        };
        Hold(of_client, self.hub.calls.clone().acquire_owned().await.ok())
    }

    async fn space(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes / Options::UNIT + 1).unwrap_or(u32::MAX);
        self.hub.waiting.clone().acquire_many_owned(units).await.ok()
    }
}
