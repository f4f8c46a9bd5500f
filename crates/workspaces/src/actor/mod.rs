//! The task that owns one workspace.
//!
//! The actor is a loop over [`Phase`]s. Each phase is a method that does its work, answers
//! requests meanwhile, and returns the phase that follows; the row is written before the
//! provider is asked for anything (see the diagram at the head of the crate).
//!
//! The happy path: `Creating` places a sandbox and greets its agent, `Ready` waits for
//! requests, `Stopping` quiesces and stops, `Resuming` starts again, `Destroying` removes
//! everything and then the row. Failures: what cannot be created, and a sandbox whose disk is gone,
//! ends in `Failed`; a stop that fails leads back to `Ready` and a resume to `Stopped`, because a provider
//! that is away comes back; a destroy that fails is tried again until it succeeds.

mod aside;
mod checking_out;
mod claiming;
mod creating;
mod destroying;
mod limits;
mod ready;
mod remaking;
mod resting;
mod resuming;
mod stopping;
mod writing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use emergent_agent_client::{AgentClient, AgentKey, Greeting};
use emergent_provider::{SandboxSpec, WorkspaceProvider};
use emergent_store::{ErrorUpdate, WorkspaceError, WorkspaceRow, WorkspaceUpdate};
use emergent_types::{StopMode, WorkspaceId, WorkspaceStatus};
use tokio::sync::{mpsc, oneshot, watch};

use crate::admission::{Verdict, Wish, judge};
use crate::dialer::ProviderDialer;
use crate::events;
use crate::new_workspace::Named;
use crate::service::{Context, Entry, Presence};
use crate::services::Offering;
use crate::{CreateError, LifecycleError, volumes};

pub(crate) use aside::Aside;
pub(crate) use claiming::{Claim, Claimed};

/// Whoever waits for a stop, resume or destroy.
pub(crate) type Reply = oneshot::Sender<Result<WorkspaceRow, LifecycleError>>;

/// Whoever waits for a create.
pub(crate) type CreateReply = oneshot::Sender<Result<WorkspaceRow, CreateError>>;

/// What others ask of an actor.
pub(crate) enum Request {
    /// Somebody wants it stopped, resumed or destroyed.
    Wish(Wish, Reply),
    /// Its time may be over; the actor knows best.
    Expire,
    /// Nobody may have used it for so long; the actor knows best.
    Rest { unused_for: Duration },
    /// Nobody may have used it for so long, and it may stand still; the actor knows best.
    Pause { unused_for: Duration },
    /// Somebody comes, and it stands still. Answered when it goes on.
    Wake(oneshot::Sender<()>),
    /// A call could not reach the agent, or reconcile did not see the sandbox.
    AgentLost,
    /// Something its user should know.
    Warn(String),
    /// Something that leaves it in the state it is in.
    Aside(Aside),
    /// Somebody wants it, as long as it waits in a pool.
    Claim(Box<Claim>),
    /// It is not needed any more, as long as it waits in a pool.
    Retire(Option<Reply>),
}

/// Where a workspace is, with what that phase needs.
pub(crate) enum Phase {
    /// To be made. With `reply`, somebody waits, and a failure leaves no row.
    Creating { reply: Option<CreateReply>, named: Named },
    /// The agent answers, or did when last heard of.
    Ready,
    /// To be stopped.
    Stopping { replies: Vec<Reply>, mode: StopMode },
    /// Only the disk is there, or what runs stands still.
    Stopped,
    /// To be started again.
    Resuming { replies: Vec<Reply>, after: Option<Loss> },
    /// Cannot be repaired; the reason is in the row.
    Failed,
    /// To be made once more, whatever is left of it.
    Remaking { reply: Reply },
    /// To be removed.
    Destroying { replies: Vec<Reply> },
    /// The row is gone.
    Gone,
}

/// How a sandbox came to be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// It ran out of memory as a whole.
    OutOfMemory,
    /// Nobody knows.
    Unexplained,
}

/// What an earlier server has left of a sandbox.
#[derive(Default)]
struct Left {
    limits_in_doubt: bool,
    stands_still: bool,
}

/// A request that interrupts what an actor is doing.
struct Interrupted(Option<Reply>);

pub(crate) struct Actor {
    id: WorkspaceId,
    context: Arc<Context>,
    presence: Arc<Presence>,
    requests: mpsc::Receiver<Request>,
    published: watch::Sender<WorkspaceRow>,
    /// When a lost sandbox was last started again.
    recovered_at: Option<Instant>,
    /// Whether its provider could not be asked since a sandbox was last lost.
    provider_was_away: bool,
    /// Whether its agent is to be looked after before anything else.
    is_in_doubt: bool,
    /// Whether an earlier server may have left its sandbox with other limits than its row's.
    limits_in_doubt: bool,
    /// When they are tried to be set again, where that failed.
    limits_again_at: Option<Instant>,
    /// When it could not be stopped for want of use.
    stopped_in_vain_at: Option<Instant>,
    /// When it was last tried to let it stand still, and it did not.
    rested_in_vain_at: Option<Instant>,
    /// What waits until the agent has been looked after.
    deferred: Vec<Aside>,
    /// Services that are on offer already when it becomes ready.
    offering: Option<Offering>,
    /// Why the state changes to this one next, where nobody asked for it.
    why: Option<(WorkspaceStatus, &'static str)>,
}

impl Actor {
    /// Starts the task for a new row and registers it.
    pub(crate) fn spawn(context: &Arc<Context>, row: WorkspaceRow, phase: Phase) -> Arc<Entry> {
        Self::start(context, row, phase, Left::default())
    }

    /// The same for a row of an earlier server, whose sandbox may stand still.
    pub(crate) fn adopt(
        context: &Arc<Context>,
        row: WorkspaceRow,
        phase: Phase,
        stands_still: bool,
    ) -> Arc<Entry> {
        Self::start(context, row, phase, Left { limits_in_doubt: true, stands_still })
    }

    fn start(context: &Arc<Context>, row: WorkspaceRow, phase: Phase, left: Left) -> Arc<Entry> {
        let (sender, requests) = mpsc::channel(64);
        let (published, view) = watch::channel(row.clone());
        let presence = Arc::new(Presence::new(&row));
        if left.stands_still {
            presence.resting.found();
        }
        let entry = Arc::new(Entry { id: row.id, presence: presence.clone(), view, requests: sender });
        context.registry.insert(row.id, entry.clone());
        let actor = Self {
            id: row.id,
            context: context.clone(),
            presence: presence.clone(),
            requests,
            published,
            recovered_at: None,
            provider_was_away: false,
            is_in_doubt: false,
            limits_in_doubt: left.limits_in_doubt,
            limits_again_at: None,
            stopped_in_vain_at: None,
            rested_in_vain_at: None,
            deferred: Vec::new(),
            offering: None,
            why: None,
        };
        if matches!(phase, Phase::Creating { .. }) {
            actor.tell(events::of_change(None, &row, None));
        }
        if matches!(phase, Phase::Ready)
            && let Ok(provider) = actor.provider()
        {
            // Adopted: calls may come at once, and dial when they do.
            presence.set_agent(Some(actor.agent_client(provider)));
        }
        tokio::spawn(actor.run(phase));
        entry
    }

    async fn run(mut self, mut phase: Phase) {
        loop {
            phase = match phase {
                Phase::Creating { reply, named } => self.creating(reply, named).await,
                Phase::Ready => self.ready().await,
                Phase::Stopping { replies, mode } => self.stopping(replies, mode).await,
                Phase::Stopped => self.idle(WorkspaceStatus::Stopped).await,
                Phase::Resuming { replies, after } => self.resuming(replies, after).await,
                Phase::Failed => self.idle(WorkspaceStatus::Failed).await,
                Phase::Remaking { reply } => self.remaking(reply).await,
                Phase::Destroying { replies } => self.destroying(replies).await,
                Phase::Gone => break,
            };
        }
        self.context.registry.remove(self.id);
        if let Some(stock) = self.context.pools.stock_of(&self.row()) {
            stock.withdraw(self.id);
            self.context.pools.wake();
        }
    }

    fn row(&self) -> WorkspaceRow {
        self.published.borrow().clone()
    }

    /// Waits, with no sandbox, for a request that leads out of here.
    async fn idle(&mut self, status: WorkspaceStatus) -> Phase {
        loop {
            match self.next_request().await {
                Some(Request::Wish(wish, reply)) => match judge(status, wish) {
                    Verdict::Begin if wish == Wish::Destroy => {
                        if let Some(replies) = self.intend(WorkspaceStatus::Destroying, reply).await {
                            return Phase::Destroying { replies };
                        }
                    }
                    Verdict::Begin if wish == Wish::Remake => return Phase::Remaking { reply },
                    Verdict::Begin => match self.claim_resume().await {
                        Ok(()) => return Phase::Resuming { replies: vec![reply], after: None },
                        Err(error) => answer([reply], Err(error)),
                    },
                    Verdict::AlreadySo => answer([reply], Ok(self.row())),
                    Verdict::Join | Verdict::Refuse => answer([reply], Err(self.wrong_state())),
                },
                Some(Request::Expire) if self.presence.activity.close_if_over() => {
                    return self.expired();
                }
                Some(Request::AgentLost) if status == WorkspaceStatus::Stopped => {
                    self.look_after_disk().await;
                }
                Some(Request::Retire(reply)) => {
                    if let Some(phase) = self.retired(reply) {
                        return phase;
                    }
                }
                Some(Request::Claim(claim)) => claim.refuse(),
                Some(Request::Aside(aside)) if status == WorkspaceStatus::Stopped => self.aside(aside).await,
                Some(Request::Aside(aside)) => aside.refuse(self.wrong_state()),
                Some(Request::Expire | Request::Rest { .. } | Request::Pause { .. } | Request::AgentLost) => {
                }
                // Nobody is let into what is not ready; who waits learns that.
                Some(Request::Wake(_)) => {}
                Some(Request::Warn(warning)) => self.warn(warning).await,
                None => return Phase::Gone,
            }
        }
    }

    /// Nobody wants it any more; `None` where it is somebody's by now.
    fn retired(&self, reply: Option<Reply>) -> Option<Phase> {
        match self.row().warm_pool {
            Some(_) => Some(Phase::Destroying { replies: reply.into_iter().collect() }),
            None => {
                answer(reply, Err(self.wrong_state()));
                None
            }
        }
    }

    async fn next_request(&mut self) -> Option<Request> {
        self.requests.recv().await
    }

    /// Runs work that a destroy may interrupt. Others who want the same outcome join;
    /// what does not fit the state is refused at once.
    async fn interruptible<T>(
        &mut self,
        work: impl Future<Output = T>,
        joined: &mut Vec<Reply>,
    ) -> Result<T, Interrupted> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                result = &mut work => return Ok(result),
                request = self.requests.recv() => match request {
                    Some(Request::Wish(wish, reply)) => match judge(self.row().status, wish) {
                        Verdict::Begin if wish == Wish::Destroy => return Err(Interrupted(Some(reply))),
                        Verdict::Join => joined.push(reply),
                        Verdict::AlreadySo => answer([reply], Ok(self.row())),
                        Verdict::Begin | Verdict::Refuse => answer([reply], Err(self.wrong_state())),
                    },
                    Some(Request::Warn(warning)) => self.warn(warning).await,
                    Some(Request::Retire(reply)) if self.row().warm_pool.is_some() => {
                        return Err(Interrupted(reply));
                    }
                    Some(Request::Retire(reply)) => answer(reply, Err(self.wrong_state())),
                    Some(Request::Claim(claim)) => claim.refuse(),
                    Some(Request::Aside(aside)) => aside.refuse(self.wrong_state()),
                    Some(Request::Expire | Request::Rest { .. } | Request::Pause { .. }) => {}
                    Some(Request::AgentLost | Request::Wake(_)) => {}
                    // All handles are gone: the server is going down, and what is half done
                    // will be found by the next start.
                    None => return Ok(work.await),
                },
            }
        }
    }

    fn wrong_state(&self) -> LifecycleError {
        LifecycleError::WrongState { id: self.id, status: self.row().status }
    }

    /// Nobody used it for so long that it is to go.
    fn expired(&mut self) -> Phase {
        tracing::info!(workspace = %self.id, "workspace {} has expired", self.id);
        self.why = Some((WorkspaceStatus::Destroying, "expired"));
        Phase::Destroying { replies: Vec::new() }
    }

    async fn fail(&self, code: &str, message: String) -> Phase {
        if let Some(pool) = self.row().warm_pool {
            tracing::warn!(workspace = %self.id, code, pool, "a member of a pool has failed: {message}");
            if let Some(stock) = self.context.pools.stock_of(&self.row()) {
                stock.note_failure(message);
            }
            return Phase::Destroying { replies: Vec::new() };
        }
        tracing::error!(workspace = %self.id, code, "workspace {} has failed: {message}", self.id);
        self.presence.set_agent(None);
        let error = ErrorUpdate::Set(WorkspaceError { code: code.to_owned(), message });
        self.record(WorkspaceUpdate { error, ..WorkspaceUpdate::to_status(WorkspaceStatus::Failed) }).await;
        Phase::Failed
    }

    fn provider(&self) -> Result<Arc<dyn WorkspaceProvider>, LifecycleError> {
        let kind = self.row().provider;
        let missing = || LifecycleError::ProviderMissing { id: self.id, provider: kind };
        self.context.orchestrator.provider(kind).ok_or_else(missing)
    }

    fn agent_key(&self) -> AgentKey {
        AgentKey::derive(self.context.store.installation().secret.expose(), self.id)
    }

    fn spec(&self) -> SandboxSpec {
        let row = self.row();
        let volumes = volumes::volumes_of(&row);
        SandboxSpec {
            id: self.id,
            limits: row.resource_limits,
            network: row.network,
            named: self.context.options.named(&row),
            base_image: row.base_image,
            volumes,
            agent_key: self.agent_key(),
        }
    }

    /// When a sandbox that nobody speaks to may end itself; 0 is never.
    fn deadline_unix_ms(&self) -> u64 {
        let end = self.presence.activity.expires_at().or(self.row().expires_at);
        end.map_or(0, |end| end.unix_timestamp().unsigned_abs() * 1000)
    }

    /// A client for the agent of this workspace's sandbox.
    fn agent_client(&self, provider: Arc<dyn WorkspaceProvider>) -> AgentClient {
        AgentClient::new(Arc::new(ProviderDialer { provider, id: self.id }), self.greeting())
    }

    /// What its agent is told first.
    fn greeting(&self) -> Greeting {
        let row = self.row();
        let environment =
            row.environment.expose().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Greeting { key: self.agent_key(), environment, deadline_unix_ms: self.deadline_unix_ms() }
    }
}

/// Tells everybody who waits.
fn answer(replies: impl IntoIterator<Item = Reply>, result: Result<WorkspaceRow, LifecycleError>) {
    for reply in replies {
        // Whoever asked may have gone; the outcome stands.
        let _ = reply.send(result.clone());
    }
}
