//! What is known of each provider's health.

use std::time::Duration;

use emergent_provider::{Health, WorkspaceProvider};
use emergent_types::{Capabilities, NetworkMode, ProviderKind};
use time::OffsetDateTime;

/// How long a health check may take.
pub(crate) const CHECK_LIMIT: Duration = Duration::from_secs(10);

/// How long the first one may take: a provider may make a sandbox to find out what can be had.
pub(crate) const FIRST_CHECK_LIMIT: Duration = Duration::from_secs(60);

/// Whether a provider takes part in automatic choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderState {
    /// The last check passed.
    Healthy,
    /// The last check failed, for this reason.
    Unhealthy(String),
    /// It is not used here, for this reason.
    Disabled(String),
}

impl ProviderState {
    /// Its name.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Unhealthy(_) => "unhealthy",
            Self::Disabled(_) => "disabled",
        }
    }

    /// Why it does not take part.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Healthy => None,
            Self::Unhealthy(reason) | Self::Disabled(reason) => Some(reason),
        }
    }
}

/// A provider is in another state than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChange {
    /// Which.
    pub provider: ProviderKind,
    /// The state before; `None` for the first.
    pub from: Option<&'static str>,
    /// The state now.
    pub to: ProviderState,
}

/// What is known of one provider.
#[derive(Debug, Clone)]
pub struct ProviderStatus {
    /// Which.
    pub kind: ProviderKind,
    /// The last check's result.
    pub state: ProviderState,
    /// When it was made; `None` for what is not used and so never checked.
    pub last_check_at: Option<OffsetDateTime>,
    /// What it can do; `None` for what is not used, and for what has never said.
    pub capabilities: Option<Capabilities>,
    /// Network modes that are not among its capabilities.
    pub networks_unavailable: Vec<UnavailableNetwork>,
}

/// A network mode that a provider does not offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnavailableNetwork {
    /// Which.
    pub network: NetworkMode,
    /// Why, for people; `None` where nothing is known about it.
    pub reason: Option<String>,
}

/// Asks a provider, bounded in time: a provider that hangs is unhealthy, not a hang.
pub(crate) async fn check(provider: &dyn WorkspaceProvider, limit: Duration) -> ProviderState {
    match tokio::time::timeout(limit, provider.health()).await {
        Ok(Health::Healthy) => ProviderState::Healthy,
        Ok(Health::Unhealthy { reason }) => ProviderState::Unhealthy(reason),
        Err(_) => ProviderState::Unhealthy(format!("the health check took longer than {limit:?}")),
    }
}
