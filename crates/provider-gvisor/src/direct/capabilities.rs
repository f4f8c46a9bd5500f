//! What this provider can do here and now.

use emergent_provider::free_on_this_host;
use emergent_types::{
    Capabilities, DiskEnforcement, Enforcement, IsolationLevel, LimitEnforcement, NetworkMode, Persistence,
};

use super::adjust::ADJUSTABLE;
use super::host::Host;
use super::runsc::facts;
use crate::network::Offer;

impl Host {
    /// Why a network is not among those that are offered.
    pub(super) fn why_no_network(&self, mode: NetworkMode) -> Option<String> {
        match (mode, self.internet.offer()) {
            (NetworkMode::Isolated, _) | (NetworkMode::Internet, Offer::Offered) => None,
            (NetworkMode::Internet, Offer::Untried) => Some("it has not been tried yet".to_owned()),
            (NetworkMode::Internet, Offer::Refused { reason, .. }) => Some(reason),
        }
    }

    pub(super) fn capabilities(&self) -> Capabilities {
        let mut networks = vec![NetworkMode::Isolated];
        // Where nothing is known, nothing is promised.
        if self.internet.offer() == Offer::Offered {
            networks.push(NetworkMode::Internet);
        }
        Capabilities {
            isolation: IsolationLevel::Gvisor,
            persistence: Some(Persistence::Full),
            suspend: true,
            snapshots: true,
            warm_pool: true,
            networks,
            base_image: true,
            limits: LimitEnforcement {
                cpu: Enforcement::Enforced,
                memory: Enforcement::Enforced,
                pids: Enforcement::Enforced,
                disk: DiskEnforcement::Hard,
            },
            adjustable: ADJUSTABLE,
            platform_needs: vec!["runsc".to_owned()],
            startup_ms: self.startup.summary(),
            free: Some(free_on_this_host(&self.layout.sandboxes())),
            runtime: Some(facts(self.trial.version())),
        }
    }
}
