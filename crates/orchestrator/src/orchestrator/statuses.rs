//! What is known of the providers, for who wants to see it.

use emergent_provider::WorkspaceProvider;
use emergent_types::{Capabilities, NetworkMode, ProviderKind};

use super::{FIRST_CHECK, Orchestrator, SAYS_NOTHING};
use crate::{ProviderState, ProviderStatus, UnavailableNetwork};

impl Orchestrator {
    /// What is known of every provider, those that are not used last.
    pub async fn statuses(&self) -> Vec<ProviderStatus> {
        let mut statuses = Vec::new();
        for provider in &self.shared.bounded {
            let capabilities = provider.known_capabilities().await;
            let networks_unavailable = match &capabilities {
                Some(known) => unavailable_networks(provider.as_ref(), known).await,
                None => Vec::new(),
            };
            let checked = self.shared.checked.borrow().get(&provider.kind()).cloned();
            let last_check_at = checked.as_ref().map(|checked| checked.at);
            let state = match checked.map(|checked| checked.state) {
                Some(ProviderState::Healthy) if capabilities.is_none() => {
                    ProviderState::Unhealthy(SAYS_NOTHING.to_owned())
                }
                Some(state) => state,
                None => ProviderState::Unhealthy(FIRST_CHECK.to_owned()),
            };
            let kind = provider.kind();
            statuses.push(ProviderStatus { kind, state, last_check_at, capabilities, networks_unavailable });
        }
        statuses.extend(self.shared.absent.iter().map(|absent| ProviderStatus {
            kind: absent.kind,
            state: ProviderState::Disabled(absent.absence.to_string()),
            last_check_at: None,
            capabilities: None,
            networks_unavailable: Vec::new(),
        }));
        statuses
    }

    /// What a provider can do; what it said last where it does not answer in time, and `None` where it never
    /// has or is not used.
    pub async fn known_capabilities(&self, kind: ProviderKind) -> Option<Capabilities> {
        let provider = self.shared.bounded.iter().find(|provider| provider.kind() == kind)?;
        provider.known_capabilities().await
    }
}

/// The network modes that are not among these capabilities.
async fn unavailable_networks(
    provider: &dyn WorkspaceProvider,
    capabilities: &Capabilities,
) -> Vec<UnavailableNetwork> {
    let mut unavailable = Vec::new();
    for network in NetworkMode::ALL.iter().copied().filter(|mode| !capabilities.networks.contains(mode)) {
        unavailable.push(UnavailableNetwork { network, reason: provider.why_no_network(network).await });
    }
    unavailable
}
