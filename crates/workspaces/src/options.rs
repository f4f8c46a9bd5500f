//! What an administrator decides about workspaces. Total and validated.

use std::sync::Arc;
use std::time::Duration;

use emergent_provider::NamedDemands;
use emergent_store::WorkspaceRow;
use emergent_types::{DeploymentMode, IsolationLevel, NetworkMode, ProviderKind, ResourceLimits};

use crate::{CodeCheckout, Failpoints, HostCapacity, HostServices, PoolSpec};

/// How workspaces are run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Agent workspaces that may run at once.
    pub max_concurrent: u32,
    /// Limits where a request names none.
    pub default_limits: ResourceLimits,
    /// The network where a request names none, as far as the provider can enforce it.
    pub default_network: NetworkMode,
    /// How long a workspace lives after its last use.
    pub default_ttl: Duration,
    /// Where automatic selection starts; `None` is at the strongest provider.
    pub preferred_provider: Option<ProviderKind>,
    /// Where sandboxes may be placed.
    pub deployment_mode: DeploymentMode,
    /// Nothing weaker is ever used.
    pub min_isolation: IsolationLevel,
    /// How often expired workspaces are looked for.
    pub sweep_interval: Duration,
    /// How often recorded and observed state are compared.
    pub reconcile_interval: Duration,
    /// How long processes may take to end when their workspace is stopped or destroyed.
    pub grace: Duration,
    /// How long after the last use a stream is let go that costs the host a process; `None` is never.
    pub stream_idle: Option<Duration>,
    /// How long after the last use a workspace is stopped, with what runs standing still where its provider can
    /// do that; `None` is never.
    pub idle_stop: Option<Duration>,
    /// How long after the last use a sandbox stands still until the next call, where its provider can do that and
    /// nothing runs in it; `None` is never. Members of pools do so in any case.
    pub idle_pause: Option<Duration>,
    /// Copies of disks that may be kept at once.
    pub max_snapshots: u32,
    /// Sandboxes that are made before anybody asks for them.
    pub pools: Vec<PoolSpec>,
    /// How many members of each pool, the next to be handed out, do not stand still: to go on takes longer than
    /// everything else about handing one out.
    pub pool_awake: u32,
    /// How often pools are looked after where nothing else calls for it.
    pub pool_interval: Duration,
    /// How often it is looked at what every workspace uses.
    pub usage_interval: Duration,
    /// From how much on there is an alert, in per cent of what there is.
    pub alert_percent: u8,
    /// What this host has for workspaces.
    pub host: HostCapacity,
    /// Where a test ends this server.
    pub failpoints: Failpoints,
    /// What programs in every workspace can reach.
    pub services: HostServices,
    /// Who checks out the code of workspaces; `None` where nobody does.
    pub checkout: Option<Arc<dyn CodeCheckout>>,
}

impl Options {
    /// What the request of a row named. Where that was not written down, what is surely named:
    /// what is not a default.
    pub(crate) fn named(&self, row: &WorkspaceRow) -> NamedDemands {
        if let Some(named) = row.named_demands {
            return named;
        }
        let (limits, defaults) = (row.resource_limits, self.default_limits);
        NamedDemands {
            cpu: limits.cpu != defaults.cpu,
            memory: limits.memory != defaults.memory,
            disk: limits.disk != defaults.disk,
            network: row.network != self.default_network,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_concurrent: 10,
            default_limits: ResourceLimits::WORKSPACE_DEFAULT,
            default_network: NetworkMode::Internet,
            default_ttl: Duration::from_secs(30 * 24 * 60 * 60),
            preferred_provider: None,
            deployment_mode: DeploymentMode::SelfHosted,
            min_isolation: IsolationLevel::Container,
            sweep_interval: Duration::from_secs(2),
            reconcile_interval: Duration::from_secs(60),
            grace: Duration::from_secs(10),
            stream_idle: Some(Duration::from_secs(5 * 60)),
            idle_stop: None,
            idle_pause: None,
            max_snapshots: 100,
            pools: Vec::new(),
            pool_awake: 1,
            pool_interval: Duration::from_secs(5),
            usage_interval: Duration::from_secs(10),
            alert_percent: 80,
            host: HostCapacity::default(),
            failpoints: Failpoints::default(),
            services: HostServices::default(),
            checkout: None,
        }
    }
}
