//! What workspaces use: looked at every few seconds from outside, and at once when somebody asks.
//!
//! ```text
//!   every ready workspace ─► provider.usage ─► its history (the last 60) ─► totals ─► alerts, metrics
//! ```

mod history;
mod totals;

use std::sync::Arc;
use std::time::{Duration, Instant};

use emergent_types::{ResourceLimits, WorkspaceId, WorkspaceStatus};
use futures::StreamExt;

pub use history::Sample;
pub(crate) use history::UsageHistory;
pub use totals::{ProviderTotals, RunningUsage, Totals};
pub(crate) use totals::{all, of_this_host};

use crate::service::{Context, Entry};
use crate::{Handle, LifecycleError, alerts};

/// How many workspaces are looked at at once: a Docker has others to serve.
const AT_ONCE: usize = 8;

/// How long a look may take.
const LIMIT: Duration = Duration::from_secs(3);

/// For each second of looking, so many of rest at least.
const REST: u32 = 1;

/// How old a sample may be that is given to whoever asks.
const FRESH: Duration = Duration::from_secs(1);

/// What a workspace uses, and what it may use.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkspaceUsage {
    /// What it may use.
    pub limits: ResourceLimits,
    /// The latest look; `None` where its provider cannot tell anything.
    pub latest: Option<Sample>,
    /// Earlier ones, the oldest first.
    pub samples: Vec<Sample>,
}

/// Looks at every ready workspace for ever.
pub(crate) async fn watch_usage(context: Arc<Context>) {
    loop {
        let began = Instant::now();
        let ready = context.registry.filter(|entry| entry.status() == WorkspaceStatus::Ready);
        futures::stream::iter(ready)
            .for_each_concurrent(AT_ONCE, |entry| look_and_keep(&context, entry))
            .await;
        alerts::look(&context);
        tokio::time::sleep(context.options.usage_interval.max(began.elapsed() * REST)).await;
    }
}

async fn look_and_keep(context: &Context, entry: Arc<Entry>) {
    match look(context, &entry).await {
        Ok(()) => entry.presence.usage.keep_latest(),
        // It may have been stopped meanwhile, or its provider is away, which others tell.
        Err(reason) => {
            tracing::debug!(workspace = %entry.id, reason, "the use of workspace {} is not known: {reason}", entry.id);
        }
    }
}

/// Takes a new sample, unless somebody else has just done so.
async fn look(context: &Context, entry: &Entry) -> Result<(), String> {
    let history = &entry.presence.usage;
    let asked = Instant::now();
    let _turn = history.turn().await;
    if history.is_newer_than(asked) {
        return Ok(());
    }
    let kind = entry.view.borrow().provider;
    let provider = context
        .orchestrator
        .provider(kind)
        .ok_or_else(|| format!("provider {kind} is not available on this installation"))?;
    let answer = tokio::time::timeout(LIMIT, provider.usage(entry.id)).await;
    let usage = answer
        .map_err(|_| format!("provider {kind} did not answer within {LIMIT:?}"))?
        .map_err(|error| error.to_string())?;
    let usage = usage.map(|mut usage| {
        usage.disk_bytes = usage.disk_bytes.or_else(|| Some(entry.presence.disk.found()?.bytes));
        usage
    });
    history.add(usage, Instant::now());
    Ok(())
}

impl Handle {
    /// What a workspace uses now, and what it used lately. `WrongState` where it does not run.
    pub async fn usage(&self, id: WorkspaceId) -> Result<WorkspaceUsage, LifecycleError> {
        let entry = self.entry(id)?;
        let wrong_state = |status| LifecycleError::WrongState { id, status };
        if entry.status() != WorkspaceStatus::Ready {
            return Err(wrong_state(entry.status()));
        }
        let history = &entry.presence.usage;
        if !history.is_fresh(FRESH)
            && let Err(reason) = look(self.context(), &entry).await
        {
            // What went away while it was looked at is not a failure of its provider.
            return Err(match entry.status() {
                WorkspaceStatus::Ready => LifecycleError::Provider { id, reason },
                status => wrong_state(status),
            });
        }
        let limits = entry.view.borrow().resource_limits;
        Ok(WorkspaceUsage { limits, latest: history.latest(), samples: history.kept() })
    }

    /// What each running workspace uses, as far as it is known already.
    pub fn usage_of_each(&self) -> Vec<RunningUsage> {
        totals::of_each(self.context())
    }

    /// What all workspaces use, by provider.
    pub fn usage_totals(&self) -> Vec<ProviderTotals> {
        all(self.context())
    }
}
