//! What all workspaces use together.

use std::time::Duration;

use emergent_types::{ProviderKind, ResourceLimits, WorkspaceId, WorkspaceStatus};
use time::OffsetDateTime;

use super::Sample;
use crate::service::{Context, Entry};

/// How long a workspace must not have been used to be called idle.
const IDLE_AFTER: Duration = Duration::from_secs(60);

/// How many rounds of looking a sample is taken for the present; and the least time.
const ROUNDS: u32 = 3;
const LEAST_AGE: Duration = Duration::from_secs(5);

/// What the running workspaces of one provider use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProviderTotals {
    /// Whose.
    pub provider: ProviderKind,
    /// All of them.
    pub all: Totals,
    /// Those that nobody has used for a minute, and members of pools.
    pub idle: Totals,
    /// How many of them stand still until somebody comes.
    pub resting: u32,
}

/// What some workspaces use together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// How many there are of which anything is known.
    pub workspaces: u32,
    /// Processors in use.
    pub cpu_cores: f64,
    /// Memory.
    pub memory_bytes: u64,
    /// Disk.
    pub disk_bytes: u64,
}

impl Totals {
    fn add(&mut self, sample: &Sample) {
        self.workspaces += 1;
        self.cpu_cores += sample.cpu_cores.unwrap_or(0.0);
        self.memory_bytes += sample.usage.memory_bytes.unwrap_or(0);
        self.disk_bytes += sample.usage.disk_bytes.unwrap_or(0);
    }

    /// The mean of these figures over the workspaces: processors and memory; `None` without any.
    pub fn mean(&self) -> Option<(f64, f64)> {
        let count = f64::from(self.workspaces);
        (self.workspaces > 0).then(|| (self.cpu_cores / count, self.memory_bytes as f64 / count))
    }
}

/// What one running workspace uses, and what it may use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunningUsage {
    /// Which one.
    pub id: WorkspaceId,
    /// Whose.
    pub provider: ProviderKind,
    /// What it may use.
    pub limits: ResourceLimits,
    /// The latest look; `None` where nothing is known of the present.
    pub recent: Option<Sample>,
}

/// Each that runs and is somebody's. Nobody is asked anything.
pub(crate) fn of_each(context: &Context) -> Vec<RunningUsage> {
    let age = present(context);
    let running = |entry: &std::sync::Arc<Entry>| {
        let row = entry.view.borrow();
        (row.status == WorkspaceStatus::Ready && row.warm_pool.is_none()).then(|| RunningUsage {
            id: entry.id,
            provider: row.provider,
            limits: row.resource_limits,
            recent: entry.presence.usage.recent(age),
        })
    };
    context.registry.with_all(|entries| entries.filter_map(running).collect())
}

/// How old a sample may be that says something about now.
fn present(context: &Context) -> Duration {
    (context.options.usage_interval * ROUNDS).max(LEAST_AGE)
}

/// By provider: every one that this installation has.
pub(crate) fn all(context: &Context) -> Vec<ProviderTotals> {
    let now = emergent_store::now();
    let nothing =
        |provider| ProviderTotals { provider, all: Totals::default(), idle: Totals::default(), resting: 0 };
    let mut totals: Vec<_> =
        context.orchestrator.providers().iter().map(|provider| nothing(provider.kind())).collect();
    each(context, |entry, provider, sample| {
        let Some(of_provider) = totals.iter_mut().find(|totals| totals.provider == provider) else { return };
        of_provider.all.add(sample);
        if is_idle(entry, now) {
            of_provider.idle.add(sample);
        }
        of_provider.resting += u32::from(entry.presence.resting.is_so());
    });
    totals
}

/// Of everything that is on this host.
pub(crate) fn of_this_host(context: &Context) -> Totals {
    let mut totals = Totals::default();
    each(context, |_, _, sample| {
        if !sample.usage.on_another_host {
            totals.add(sample);
        }
    });
    totals
}

fn each(context: &Context, mut with: impl FnMut(&Entry, ProviderKind, &Sample)) {
    let age = present(context);
    context.registry.with_all(|entries| {
        for entry in entries {
            let (status, provider) = {
                let row = entry.view.borrow();
                (row.status, row.provider)
            };
            let sample = entry.presence.usage.recent(age);
            if let Some(sample) = sample.filter(|_| status == WorkspaceStatus::Ready) {
                with(entry, provider, &sample);
            }
        }
    });
}

fn is_idle(entry: &Entry, now: OffsetDateTime) -> bool {
    let activity = &entry.presence.activity;
    entry.is_in_pool() || (activity.running() == 0 && now - activity.last_used_at() >= IDLE_AFTER)
}
