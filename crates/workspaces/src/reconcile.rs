//! Compares what is recorded with what exists, both ways.
//!
//! Rows are written before and removed after their sandboxes, so a sandbox of ours without a
//! row is an orphan, and a row without its sandbox lost it. Foreign resources are never
//! listed by a provider and so never seen here.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use emergent_provider::{ObservedState, WorkspaceProvider};
use emergent_store::WorkspaceRow;
use emergent_types::{ProviderKind, StopMode, WorkspaceId, WorkspaceStatus};

use crate::actor::{Actor, Phase, Request};
use crate::new_workspace::Named;
use crate::service::{Context, Entry};
use crate::{Options, Place, StartError, snapshots};

/// What a provider sees of one id; `Unknown` when the provider could not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    Seen(ObservedState),
    Nothing,
    Unknown,
}

/// How long a start waits for a provider to say what it has. One that takes longer is asked again while the
/// server works already.
const START_PATIENCE: Duration = Duration::from_secs(5);

struct Observations {
    by_provider: HashMap<ProviderKind, Option<HashMap<WorkspaceId, ObservedState>>>,
}

impl Observations {
    /// Asks all of them at once: one that is silent does not keep the others waiting.
    async fn gather(context: &Context, patience: Option<Duration>) -> Self {
        let asked = context.orchestrator.providers().iter().map(|provider| async move {
            let kind = provider.kind();
            let listed = match patience {
                None => provider.list().await.map_err(|error| error.to_string()),
                Some(patience) => match tokio::time::timeout(patience, provider.list()).await {
                    Ok(listed) => listed.map_err(|error| error.to_string()),
                    Err(_) => Err("it does not answer".to_owned()),
                },
            };
            if let Err(reason) = &listed {
                tracing::warn!(provider = %kind, reason, "cannot compare with what exists on {kind}: {reason}");
            }
            let listed = listed.ok();
            (kind, listed.map(|listed| listed.into_iter().map(|found| (found.id, found.state)).collect()))
        });
        Self { by_provider: futures::future::join_all(asked).await.into_iter().collect() }
    }

    fn sight(&self, provider: ProviderKind, id: WorkspaceId) -> Sight {
        match self.by_provider.get(&provider) {
            Some(Some(listed)) => listed.get(&id).map_or(Sight::Nothing, |state| Sight::Seen(*state)),
            // A provider that is silent, or not configured any more: nothing is known.
            Some(None) | None => Sight::Unknown,
        }
    }
}

/// Gives every row an owner.
pub(crate) async fn on_start(context: &Arc<Context>) -> Result<(), StartError> {
    let rows = context.store.workspaces_for_reconcile().await?;
    let observations = Observations::gather(context, Some(START_PATIENCE)).await;
    for row in rows {
        let sight = observations.sight(row.provider, row.id);
        let phase = first_phase(&context.options, &row, sight);
        tracing::info!(workspace = %row.id, status = %row.status, "workspace {} was {} and is {}",
            row.id, row.status, describe(&phase));
        context.reach(Place::AdoptBefore).await;
        if row.status == WorkspaceStatus::Creating && !row.acknowledged {
            // Whoever waited for it may ask again, and gets one.
            context.store.release_idempotency_key(row.id).await?;
        }
        // Makes the owner connect, and repair what cannot be connected to. Those that are stopped are looked at
        // by the first comparison, with one list for all of them.
        let is_ready = matches!(phase, Phase::Ready);
        let stands_still = is_ready && sight == Sight::Seen(ObservedState::Suspended);
        let entry = Actor::adopt(context, row, phase, stands_still);
        if is_ready {
            entry.tell(Request::AgentLost);
        }
    }
    context.reach(Place::AdoptAllHaveOwners).await;
    Ok(())
}

/// Where a row's life goes on after a start.
fn first_phase(options: &Options, row: &WorkspaceRow, sight: Sight) -> Phase {
    use ObservedState::{Running, Suspended};
    let replies = Vec::new;
    if let Some(pool) = &row.warm_pool {
        // Nobody was promised it. What is whole is worth keeping while there is such a pool.
        let is_wanted = options.pools.iter().any(|spec| spec.name == *pool);
        let is_whole =
            row.status == WorkspaceStatus::Ready && matches!(sight, Sight::Seen(Running | Suspended));
        return match is_wanted && is_whole {
            true => Phase::Ready,
            false => Phase::Destroying { replies: replies() },
        };
    }
    match (row.status, sight) {
        // Nobody was promised it: whoever waited has seen the connection break and may ask
        // again, and then there would be two.
        (WorkspaceStatus::Creating, _) if !row.acknowledged => Phase::Destroying { replies: replies() },
        (WorkspaceStatus::Creating, _) => {
            let isolation = row.min_isolation > options.min_isolation;
            let named = Named { demands: options.named(row), isolation };
            Phase::Creating { reply: None, named }
        }
        // `Ready` looks after its agent, and recovers or fails by what it finds.
        (WorkspaceStatus::Ready, _) => Phase::Ready,
        // It was to stand still, and does.
        (WorkspaceStatus::Stopping, Sight::Seen(Suspended)) => {
            Phase::Stopping { replies: replies(), mode: StopMode::Memory }
        }
        (WorkspaceStatus::Stopping, _) => Phase::Stopping { replies: replies(), mode: StopMode::Disk },
        // One that runs all the same is stopped by its owner, when the first comparison tells it.
        (WorkspaceStatus::Stopped, _) => Phase::Stopped,
        (WorkspaceStatus::Resuming, _) => Phase::Resuming { replies: replies(), after: None },
        (WorkspaceStatus::Destroying, _) => Phase::Destroying { replies: replies() },
        (WorkspaceStatus::Failed, _) => Phase::Failed,
    }
}

fn describe(phase: &Phase) -> &'static str {
    match phase {
        Phase::Creating { .. } | Phase::Remaking { .. } => "created again",
        Phase::Ready => "adopted",
        Phase::Stopping { .. } => "stopped",
        Phase::Stopped => "kept",
        Phase::Resuming { .. } => "resumed",
        Phase::Failed => "left as it is",
        Phase::Destroying { .. } | Phase::Gone => "destroyed",
    }
}

/// Compares for ever, and first at once: what an earlier server has left is nobody's for sure.
pub(crate) async fn periodically(context: Arc<Context>) {
    let mut suspects = Suspects::after_a_start();
    loop {
        let observations = Observations::gather(&context, None).await;
        destroy_orphans(&context, &observations, &mut suspects).await;
        snapshots::reconcile(&context).await;
        for entry in context.registry.filter(|entry| is_lost(entry, &observations)) {
            entry.tell(Request::AgentLost);
        }
        tokio::time::sleep(context.options.reconcile_interval).await;
    }
}

/// Whether what a workspace needs is not to be seen.
fn is_lost(entry: &Entry, observations: &Observations) -> bool {
    use ObservedState::{Partial, Running, Stopped, Suspended};
    let (status, provider) = {
        let row = entry.view.borrow();
        (row.status, row.provider)
    };
    match (status, observations.sight(provider, entry.id)) {
        (WorkspaceStatus::Ready, Sight::Nothing | Sight::Seen(Stopped | Partial)) => true,
        // Held by somebody who did not come to let it go.
        (WorkspaceStatus::Ready, Sight::Seen(Suspended)) => !entry.presence.resting.is_so(),
        // Its disk is not there, or it runs although it should not.
        (WorkspaceStatus::Stopped, Sight::Nothing | Sight::Seen(Running)) => true,
        (_, Sight::Seen(Running | Stopped | Suspended | Partial) | Sight::Nothing | Sight::Unknown) => false,
    }
}

/// What was seen without an owner. It goes when it is seen so a second time: whatever this server begins has
/// an owner first, and yet nothing is worth a mistake here.
struct Suspects {
    seen: HashSet<(ProviderKind, WorkspaceId)>,
    is_first_look: bool,
}

impl Suspects {
    /// Nothing was begun since, so the first look is enough.
    fn after_a_start() -> Self {
        Self { seen: HashSet::new(), is_first_look: true }
    }

    /// Those of a look that are to go; the others are remembered.
    fn convict(&mut self, orphans: Vec<(ProviderKind, WorkspaceId)>) -> Vec<(ProviderKind, WorkspaceId)> {
        let is_first_look = std::mem::take(&mut self.is_first_look);
        let before = std::mem::take(&mut self.seen);
        let (convicted, fresh): (Vec<_>, Vec<_>) =
            orphans.into_iter().partition(|orphan| is_first_look || before.contains(orphan));
        self.seen = fresh.into_iter().collect();
        convicted
    }
}

/// An owner exists before its sandbox and goes after it, so what was seen and has no owner
/// now is nobody's. Nor is what a provider has made for a workspace that lives elsewhere since: it was
/// given up, and finished all the same.
async fn destroy_orphans(context: &Context, observations: &Observations, suspects: &mut Suspects) {
    let seen = observations
        .by_provider
        .iter()
        .flat_map(|(kind, listed)| listed.iter().flat_map(HashMap::keys).map(move |id| (*kind, *id)));
    let orphans = seen.filter(|(kind, id)| is_orphan(context, *kind, *id)).collect();
    for (kind, id) in suspects.convict(orphans) {
        // Somebody may have come to own it since it was seen.
        if let Some(provider) = context.orchestrator.provider(kind).filter(|_| is_orphan(context, kind, id)) {
            destroy_orphan(provider.as_ref(), id).await;
        }
    }
}

fn is_orphan(context: &Context, kind: ProviderKind, id: WorkspaceId) -> bool {
    context.registry.get(id).is_none_or(|entry| {
        let row = entry.view.borrow();
        row.provider != kind && matches!(row.status, WorkspaceStatus::Ready | WorkspaceStatus::Stopped)
    })
}

async fn destroy_orphan(provider: &dyn WorkspaceProvider, id: WorkspaceId) {
    let kind = provider.kind();
    match provider.destroy(id).await {
        Ok(()) => tracing::warn!(workspace = %id, provider = %kind, "destroyed orphan {id} on {kind}"),
        Err(error) => {
            tracing::error!(workspace = %id, provider = %kind, %error, "orphan {id} on {kind} stays: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_orphan_is_seen_twice_before_it_goes_but_for_those_of_an_earlier_server() {
        let [one, two, three] = [(); 3].map(|()| (ProviderKind::Local, WorkspaceId::generate()));
        let mut suspects = Suspects::after_a_start();
        assert_eq!(suspects.convict(vec![one]), [one]);
        assert_eq!(suspects.convict(vec![two]), []);
        assert_eq!(suspects.convict(vec![two, three]), [two]);
        assert_eq!(suspects.convict(vec![]), [], "it has found an owner");
        assert_eq!(suspects.convict(vec![three]), [], "and is suspected anew");
    }
}
