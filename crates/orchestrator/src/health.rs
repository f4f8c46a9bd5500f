//! What is known of each provider's health.

use std::time::Duration;

use emergent_provider::{Health, WorkspaceProvider};
use emergent_types::{Capabilities, ProviderKind};
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
}

/// What is known of one provider.
#[derive(Debug, Clone)]
pub struct ProviderStatus {
    /// Which.
    pub kind: ProviderKind,
    /// The last check's result.
    pub state: ProviderState,
    /// When it was made.
    pub last_check_at: OffsetDateTime,
    /// What it can do.
    pub capabilities: Capabilities,
}

/// Asks a provider, bounded in time: a provider that hangs is unhealthy, not a hang.
pub(crate) async fn check(provider: &dyn WorkspaceProvider, limit: Duration) -> ProviderState {
    match tokio::time::timeout(limit, provider.health()).await {
        Ok(Health::Healthy) => ProviderState::Healthy,
        Ok(Health::Unhealthy { reason }) => ProviderState::Unhealthy(reason),
        Err(_) => ProviderState::Unhealthy(format!("the health check took longer than {limit:?}")),
    }
}
