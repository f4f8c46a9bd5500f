//! The registry of providers, and the walk along a chain.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use emergent_provider::{ProviderError, Sandbox, SandboxSpec, WorkspaceProvider};
use emergent_types::ProviderKind;
use time::OffsetDateTime;
use tokio::task::JoinSet;

use crate::health::{self, ProviderState};
use crate::{Attempt, Demand, NoProvider, ProviderStatus, Refusal, selection};

/// How often every provider's health is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// The reason of an attempt with a provider that this installation does not have.
const NOT_REGISTERED: &str = "not available on this installation";

/// The providers of this installation. Cheap to clone.
#[derive(Clone)]
pub struct Orchestrator {
    shared: Arc<Shared>,
}

struct Shared {
    providers: Vec<Arc<dyn WorkspaceProvider>>,
    checked: RwLock<HashMap<ProviderKind, Checked>>,
}

#[derive(Clone)]
struct Checked {
    state: ProviderState,
    at: OffsetDateTime,
}

/// Why a provider is not asked.
enum PassedOver {
    /// This installation does not have it.
    NotRegistered,
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

impl Orchestrator {
    /// An orchestrator over these providers, each checked once before this returns.
    pub async fn start(providers: Vec<Arc<dyn WorkspaceProvider>>) -> Self {
        let orchestrator =
            Self { shared: Arc::new(Shared { providers, checked: RwLock::new(HashMap::new()) }) };
        orchestrator.check_all(health::FIRST_CHECK_LIMIT).await;
        orchestrator
    }

    /// Checks every provider every 30 seconds, until cancelled.
    pub async fn watch_health(&self) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            self.check_all(health::CHECK_LIMIT).await;
        }
    }

    /// Checks all of them at once: one that takes long does not keep the others waiting.
    async fn check_all(&self, limit: Duration) {
        let mut checks = JoinSet::new();
        for provider in &self.shared.providers {
            let provider = Arc::clone(provider);
            checks.spawn(async move { (provider.kind(), health::check(provider.as_ref(), limit).await) });
        }
        while let Some(checked) = checks.join_next().await {
            let Ok((kind, state)) = checked else { continue };
            let checked = Checked { state: state.clone(), at: OffsetDateTime::now_utc() };
            let before = self.write_checked().insert(kind, checked).map(|before| before.state);
            if before.as_ref() == Some(&state) {
                continue;
            }
            match &state {
                ProviderState::Healthy => tracing::info!(provider = %kind, "provider {kind} is healthy"),
                ProviderState::Unhealthy(reason) => {
                    tracing::warn!(provider = %kind, reason, "provider {kind} is unhealthy: {reason}");
                }
            }
        }
    }

    /// Every registered provider.
    pub fn providers(&self) -> &[Arc<dyn WorkspaceProvider>] {
        &self.shared.providers
    }

    /// One provider by its name.
    pub fn provider(&self, kind: ProviderKind) -> Option<Arc<dyn WorkspaceProvider>> {
        self.shared.providers.iter().find(|provider| provider.kind() == kind).cloned()
    }

    /// What is known of every registered provider.
    pub async fn statuses(&self) -> Vec<ProviderStatus> {
        let mut statuses = Vec::new();
        for provider in &self.shared.providers {
            let Some(checked) = self.read_checked().get(&provider.kind()).cloned() else { continue };
            statuses.push(ProviderStatus {
                kind: provider.kind(),
                state: checked.state,
                last_check_at: checked.at,
                capabilities: provider.capabilities().await,
            });
        }
        statuses
    }

    /// Makes a sandbox with the first provider of the chain that can. Never below the demanded
    /// isolation, and an explicit choice never falls back.
    ///
    /// Cancellation: the provider in turn may leave a half-made sandbox, as its own contract
    /// says; `spec.id` names it.
    pub async fn place(&self, demand: &Demand, spec: &SandboxSpec) -> Result<Placement, NoProvider> {
        let mut attempts = Vec::new();
        let mut retryable = false;
        let (mut not_enforceable, mut image_not_found) = (None, None);
        let mut failed_otherwise = false;
        for kind in selection::chain(demand) {
            let (started_at, clock) = (OffsetDateTime::now_utc(), Instant::now());
            let reason = match self.candidate(kind, demand).await {
                Err(PassedOver::NotRegistered) => NOT_REGISTERED.to_owned(),
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
                        // Who is not here was not passed over.
                        attempts.retain(|attempt: &Attempt| attempt.reason != NOT_REGISTERED);
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
        let refusal = image_not_found.or(not_enforceable.filter(|_| !failed_otherwise));
        Err(NoProvider { attempts, retryable, refusal })
    }

    /// The provider, if it may serve this demand at all.
    async fn candidate(
        &self,
        kind: ProviderKind,
        demand: &Demand,
    ) -> Result<Arc<dyn WorkspaceProvider>, PassedOver> {
        let provider = self.provider(kind).ok_or(PassedOver::NotRegistered)?;
        let isolation = provider.capabilities().await.isolation;
        if isolation < demand.min_isolation {
            return Err(PassedOver::TooWeak(format!(
                "its isolation level {isolation} is below the demanded {}",
                demand.min_isolation
            )));
        }
        match self.read_checked().get(&kind).map(|checked| checked.state.clone()) {
            Some(ProviderState::Unhealthy(reason)) => Err(PassedOver::Unhealthy(reason)),
            _ => Ok(provider),
        }
    }

    fn read_checked(&self) -> std::sync::RwLockReadGuard<'_, HashMap<ProviderKind, Checked>> {
        self.shared.checked.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write_checked(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<ProviderKind, Checked>> {
        self.shared.checked.write().unwrap_or_else(std::sync::PoisonError::into_inner)
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
