//! The registry of providers, and the walk along a chain.

mod statuses;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use emergent_provider::{ProviderError, Sandbox, SandboxSpec, WorkspaceProvider};
use emergent_types::{ProviderKind, SnapshotId};
use time::OffsetDateTime;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::health::{self, ProviderState, StateChange};
use crate::{Absence, AbsentProvider, Attempt, Bounded, Demand, NoProvider, Pace, Refusal, selection};

/// How many changes of state are kept for those who follow them.
const CHANGES_KEPT: usize = 64;

/// What is known of a provider whose first check goes on.
const FIRST_CHECK: &str = "it is being checked for the first time";

/// What is known of a provider that was asked what it can do, and has never answered.
const SAYS_NOTHING: &str = "it does not say what it can do";

/// The providers of this installation. Cheap to clone.
#[derive(Clone)]
pub struct Orchestrator {
    shared: Arc<Shared>,
}

struct Shared {
    providers: Vec<Arc<dyn WorkspaceProvider>>,
    /// The same, for who must tell what is not known from what cannot be done.
    bounded: Vec<Arc<Bounded>>,
    absent: Vec<AbsentProvider>,
    /// What the last check of each told; one whose first check still goes on is not in it.
    checked: watch::Sender<HashMap<ProviderKind, Checked>>,
    pace: Pace,
    /// How often each provider came into each state.
    entered: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    changes: broadcast::Sender<StateChange>,
}

#[derive(Clone)]
struct Checked {
    state: ProviderState,
    at: OffsetDateTime,
}

/// Why a provider is not asked.
enum PassedOver {
    /// This installation does not use it.
    Absent(String),
    /// Its level is below the demanded one, and always will be.
    TooWeak(String),
    /// It could, but not now.
    Unhealthy(String),
}

/// A sandbox and how it came to be where it is.
#[derive(Debug, Clone)]
pub struct Placement {
    /// Who made it.
    pub provider: ProviderKind,
    /// What was made.
    pub sandbox: Sandbox,
    /// When its provider was asked.
    pub started_at: OffsetDateTime,
    /// How long that took.
    pub duration: Duration,
    /// Who was considered before and did not serve.
    pub attempts: Vec<Attempt>,
}

/// Who is asked first for a sandbox.
pub struct FirstChoice {
    /// Who.
    pub provider: Arc<dyn WorkspaceProvider>,
    /// Who would have been, and cannot serve now.
    pub passed_over: Vec<Attempt>,
}

impl Orchestrator {
    /// An orchestrator over these providers. Each is checked once before this returns, unless that takes long:
    /// then it goes on meanwhile, and whoever wants a sandbox of that provider waits for it.
    pub async fn start(providers: Vec<Arc<dyn WorkspaceProvider>>) -> Self {
        Self::start_without(providers, Vec::new()).await
    }

    /// The same, and these are known of and not used.
    pub async fn start_without(
        providers: Vec<Arc<dyn WorkspaceProvider>>,
        absent: Vec<AbsentProvider>,
    ) -> Self {
        Self::start_at(Pace::default(), providers, absent).await
    }

    /// The same, at another pace.
    pub async fn start_at(
        pace: Pace,
        providers: Vec<Arc<dyn WorkspaceProvider>>,
        absent: Vec<AbsentProvider>,
    ) -> Self {
        let bounded = providers.into_iter().map(|provider| Arc::new(Bounded::new(provider, pace)));
        let bounded: Vec<Arc<Bounded>> = bounded.collect();
        let providers = bounded.iter().map(|one| Arc::clone(one) as Arc<dyn WorkspaceProvider>).collect();
        let checked = watch::Sender::new(HashMap::new());
        let (entered, changes) = (Mutex::default(), broadcast::Sender::new(CHANGES_KEPT));
        let shared = Shared { providers, bounded, absent, checked, pace, entered, changes };
        let orchestrator = Self { shared: Arc::new(shared) };
        let first_checks = {
            let orchestrator = orchestrator.clone();
            tokio::spawn(async move { orchestrator.check_all(health::FIRST_CHECK_LIMIT).await })
        };
        if tokio::time::timeout(pace.start_patience, first_checks).await.is_err() {
            tracing::warn!("some providers are still being checked for the first time");
        }
        orchestrator
    }

    /// Checks every provider every 30 seconds, or as often as its pace says, until cancelled.
    pub async fn watch_health(&self) {
        let every = self.shared.pace.check_every;
        let mut due = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            due.tick().await;
            self.check_all(health::CHECK_LIMIT).await;
        }
    }

    /// Checks every provider now.
    pub async fn check_now(&self) {
        self.check_all(health::CHECK_LIMIT).await;
    }

    /// Checks all of them at once: one that takes long does not keep the others waiting.
    async fn check_all(&self, limit: Duration) {
        let mut checks = JoinSet::new();
        let mut asked = HashMap::new();
        for provider in &self.shared.providers {
            let provider = Arc::clone(provider);
            let kind = provider.kind();
            // Its first check goes on, and may take longer than any other.
            let is_first = limit == health::FIRST_CHECK_LIMIT;
            if !is_first && !self.shared.checked.borrow().contains_key(&kind) {
                continue;
            }
            let check = checks.spawn(async move { health::check(provider.as_ref(), limit).await });
            asked.insert(check.id(), kind);
        }
        while let Some(checked) = checks.join_next_with_id().await {
            let (task, state) = match checked {
                Ok((task, state)) => (task, state),
                // A check that cannot be made to its end has not passed.
                Err(error) => {
                    (error.id(), ProviderState::Unhealthy(format!("the health check broke: {error}")))
                }
            };
            let Some(kind) = asked.remove(&task) else { continue };
            let checked = Checked { state: state.clone(), at: OffsetDateTime::now_utc() };
            let mut before = None;
            self.shared.checked.send_modify(|all| before = all.insert(kind, checked));
            let before = before.map(|before| before.state);
            if before.as_ref() == Some(&state) {
                continue;
            }
            self.note_change(kind, before.as_ref(), &state);
            match &state {
                ProviderState::Healthy => tracing::info!(provider = %kind, "provider {kind} is healthy"),
                ProviderState::Unhealthy(reason) | ProviderState::Disabled(reason) => {
                    tracing::warn!(provider = %kind, reason, "provider {kind} is unhealthy: {reason}");
                }
            }
        }
    }

    /// Counts a change and tells who follows them. Another reason for the same state is none.
    fn note_change(&self, provider: ProviderKind, before: Option<&ProviderState>, now: &ProviderState) {
        let from = before.map(ProviderState::as_str);
        if from == Some(now.as_str()) {
            return;
        }
        let mut entered = self.shared.entered.lock().unwrap_or_else(PoisonError::into_inner);
        *entered.entry((provider.as_str(), now.as_str())).or_default() += 1;
        // Nobody may be following.
        let _ = self.shared.changes.send(StateChange { provider, from, to: now.clone() });
    }

    /// Changes of state from now on.
    pub fn changes(&self) -> broadcast::Receiver<StateChange> {
        self.shared.changes.subscribe()
    }

    /// How often each provider came into each state: its name, the state's and how often.
    pub fn times_entered(&self) -> Vec<(&'static str, &'static str, u64)> {
        let entered = self.shared.entered.lock().unwrap_or_else(PoisonError::into_inner);
        entered.iter().map(|((provider, state), times)| (*provider, *state, *times)).collect()
    }

    /// The state of every provider that is used. Asks nobody.
    pub fn states(&self) -> Vec<(ProviderKind, ProviderState)> {
        let checked = self.shared.checked.borrow();
        let kinds = self.shared.providers.iter().map(|provider| provider.kind());
        kinds.filter_map(|kind| Some((kind, checked.get(&kind)?.state.clone()))).collect()
    }

    /// Every registered provider.
    pub fn providers(&self) -> &[Arc<dyn WorkspaceProvider>] {
        &self.shared.providers
    }

    /// One provider by its name.
    pub fn provider(&self, kind: ProviderKind) -> Option<Arc<dyn WorkspaceProvider>> {
        self.shared.providers.iter().find(|provider| provider.kind() == kind).cloned()
    }

    /// Why a provider is not used here; `None` for one that is.
    pub fn absence(&self, kind: ProviderKind) -> Option<&Absence> {
        self.shared.absent.iter().find(|absent| absent.kind == kind).map(|absent| &absent.absence)
    }

    /// Makes a sandbox with the first provider of the chain that can. Never below the demanded
    /// isolation, and an explicit choice never falls back.
    ///
    /// Cancellation: the provider in turn may leave a half-made sandbox, as its own contract
    /// says; `spec.id` names it.
    pub async fn place(&self, demand: &Demand, spec: &SandboxSpec) -> Result<Placement, NoProvider> {
        let (mut attempts, mut absent) = (Vec::new(), Vec::new());
        let mut retryable = false;
        let (mut not_enforceable, mut image_not_found) = (None, None);
        let mut failed_otherwise = false;
        for kind in selection::chain(demand) {
            let (started_at, clock) = (OffsetDateTime::now_utc(), Instant::now());
            let reason = match self.candidate(kind, demand).await {
                // Who is not here is not passed over, and only named where nobody served.
                Err(PassedOver::Absent(reason)) => {
                    absent.push(Attempt { provider: kind, started_at, duration: clock.elapsed(), reason });
                    continue;
                }
                Err(PassedOver::TooWeak(reason)) if demand.isolation_is_named => {
                    not_enforceable.get_or_insert(Refusal::NotEnforceable {
                        field: "min_isolation",
                        reason: format!("provider {kind}: {reason}"),
                    });
                    reason
                }
                Err(PassedOver::TooWeak(reason) | PassedOver::Unhealthy(reason)) => {
                    failed_otherwise = true;
                    reason
                }
                Ok(provider) => match provider.create(spec).await {
                    Ok(sandbox) => {
                        log_step_down(spec, kind, &attempts);
                        let duration = clock.elapsed();
                        return Ok(Placement { provider: kind, sandbox, started_at, duration, attempts });
                    }
                    Err(error) => {
                        retryable |= error.is_retryable();
                        match &error {
                            ProviderError::NotEnforceable { what, reason, .. } => {
                                let (field, reason) = (*what, reason.clone());
                                not_enforceable.get_or_insert(Refusal::NotEnforceable { field, reason });
                            }
                            ProviderError::ImageNotFound { reference, reason, .. } => {
                                let (reference, reason) = (reference.clone(), reason.clone());
                                image_not_found.get_or_insert(Refusal::ImageNotFound { reference, reason });
                            }
                            _ => failed_otherwise = true,
                        }
                        tracing::warn!(workspace = %spec.id, provider = %kind, %error,
                            "provider {kind} could not create workspace {}: {error}", spec.id);
                        error.to_string()
                    }
                },
            };
            attempts.push(Attempt { provider: kind, started_at, duration: clock.elapsed(), reason });
        }
        attempts.append(&mut absent);
        attempts.sort_by_key(|attempt| attempt.started_at);
        let refusal = image_not_found.or(not_enforceable.filter(|_| !failed_otherwise));
        Err(NoProvider { attempts, retryable, refusal })
    }

    /// Makes a sandbox from a copy of a disk, with the provider that has it and no other. Never below the
    /// demanded isolation. Cancellation as with [`place`](Self::place).
    pub async fn restore(
        &self,
        kind: ProviderKind,
        snapshot: SnapshotId,
        demand: &Demand,
        spec: &SandboxSpec,
    ) -> Result<Placement, NoProvider> {
        let (started_at, clock) = (OffsetDateTime::now_utc(), Instant::now());
        let (mut retryable, mut refusal) = (false, None);
        let reason = match self.candidate(kind, demand).await {
            Err(PassedOver::TooWeak(reason)) => {
                let (field, reason) = ("min_isolation", format!("provider {kind}: {reason}"));
                refusal = Some(Refusal::NotEnforceable { field, reason: reason.clone() });
                reason
            }
            Err(PassedOver::Absent(reason) | PassedOver::Unhealthy(reason)) => reason,
            Ok(provider) => match provider.restore(snapshot, spec).await {
                Ok(sandbox) => {
                    let (duration, attempts) = (clock.elapsed(), Vec::new());
                    return Ok(Placement { provider: kind, sandbox, started_at, duration, attempts });
                }
                Err(error) => {
                    retryable = error.is_retryable();
                    refusal = match &error {
                        ProviderError::NotEnforceable { what, reason, .. } => {
                            Some(Refusal::NotEnforceable { field: what, reason: reason.clone() })
                        }
                        ProviderError::SnapshotNotFound { snapshot, .. } => {
                            Some(Refusal::SnapshotNotFound { id: *snapshot })
                        }
                        _ => None,
                    };
                    error.to_string()
                }
            },
        };
        let attempts = vec![Attempt { provider: kind, started_at, duration: clock.elapsed(), reason }];
        Err(NoProvider { attempts, retryable, refusal })
    }

    /// Who would be asked first for a sandbox; `None` where nobody would.
    pub async fn first_choice(&self, demand: &Demand) -> Option<FirstChoice> {
        let mut passed_over = Vec::new();
        for kind in selection::chain(demand) {
            let (started_at, clock) = (OffsetDateTime::now_utc(), Instant::now());
            match self.candidate(kind, demand).await {
                Ok(provider) => return Some(FirstChoice { provider, passed_over }),
                Err(PassedOver::Absent(_)) => {}
                Err(PassedOver::TooWeak(reason) | PassedOver::Unhealthy(reason)) => {
                    passed_over.push(Attempt {
                        provider: kind,
                        started_at,
                        duration: clock.elapsed(),
                        reason,
                    });
                }
            }
        }
        None
    }

    /// Whether its last check passed.
    pub fn is_healthy(&self, kind: ProviderKind) -> bool {
        let checked = self.shared.checked.borrow();
        checked.get(&kind).is_some_and(|checked| checked.state == ProviderState::Healthy)
    }

    fn why_absent(&self, kind: ProviderKind) -> String {
        let absence = self.absence(kind);
        absence.map_or_else(|| "not available on this installation".to_owned(), Absence::to_string)
    }

    /// The provider, if it may serve this demand at all.
    async fn candidate(
        &self,
        kind: ProviderKind,
        demand: &Demand,
    ) -> Result<Arc<dyn WorkspaceProvider>, PassedOver> {
        let provider = self.provider(kind).ok_or_else(|| PassedOver::Absent(self.why_absent(kind)))?;
        // What is not known is neither strong enough nor too weak for good.
        let Some(known) = self.known_capabilities(kind).await else {
            return Err(PassedOver::Unhealthy(SAYS_NOTHING.to_owned()));
        };
        let isolation = known.isolation;
        if isolation < demand.min_isolation {
            return Err(PassedOver::TooWeak(format!(
                "its isolation level {isolation} is below the demanded {}",
                demand.min_isolation
            )));
        }
        match self.first_checked(kind).await {
            ProviderState::Healthy => Ok(provider),
            ProviderState::Unhealthy(reason) | ProviderState::Disabled(reason) => {
                Err(PassedOver::Unhealthy(reason))
            }
        }
    }

    /// The state of a provider, once it was checked: nobody gets less isolation than there is only because
    /// the server has just started.
    async fn first_checked(&self, kind: ProviderKind) -> ProviderState {
        let mut checked = self.shared.checked.subscribe();
        let known = checked.wait_for(|all| all.contains_key(&kind));
        match tokio::time::timeout(health::FIRST_CHECK_LIMIT, known).await {
            Ok(Ok(all)) => all.get(&kind).map(|checked| checked.state.clone()),
            Ok(Err(_)) | Err(_) => None,
        }
        .unwrap_or_else(|| ProviderState::Unhealthy(FIRST_CHECK.to_owned()))
    }
}

/// A provider that exists here was passed over: whoever reads the log should know why the
/// isolation is weaker than it could be.
fn log_step_down(spec: &SandboxSpec, used: ProviderKind, attempts: &[Attempt]) {
    if !attempts.is_empty() {
        tracing::warn!(workspace = %spec.id, provider = %used, security = true,
            "workspace {} fell back to provider {used}", spec.id);
    }
}
