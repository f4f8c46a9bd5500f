//! What this provider can do here and now.

use emergent_provider::free_on_this_host;
use emergent_types::{
    AdjustableLimits, Capabilities, DiskEnforcement, Enforcement, IsolationLevel, LimitEnforcement,
    NetworkMode, Persistence,
};

use crate::means::{DiskKind, Means};
use crate::provider::Host;

pub(crate) fn of(host: &Host, networks: Vec<NetworkMode>) -> Capabilities {
    let means = host.means();
    Capabilities {
        isolation: IsolationLevel::Container,
        persistence: Some(Persistence::Full),
        suspend: false,
        snapshots: means.as_ref().is_ok_and(|means| means.disk == DiskKind::Image),
        warm_pool: true,
        networks,
        base_image: false,
        adjustable: means.as_ref().map_or(AdjustableLimits::NONE, Means::adjustable),
        limits: means.map_or(NOTHING, |means| means.limits()),
        platform_needs: vec!["linux".to_owned()],
        runtime: None,
        startup_ms: host.startup.summary(),
        free: Some(free_on_this_host(host.layout.data_dir())),
    }
}

/// Where nothing is known, nothing is promised.
const NOTHING: LimitEnforcement = LimitEnforcement {
    cpu: Enforcement::NotEnforced,
    memory: Enforcement::NotEnforced,
    pids: Enforcement::NotEnforced,
    disk: DiskEnforcement::Monitored,
};
