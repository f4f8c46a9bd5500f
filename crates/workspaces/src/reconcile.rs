//! Compares what is recorded with what exists, both ways.
//!
//! Rows are written before and removed after their sandboxes, so a sandbox of ours without a
//! row is an orphan, and a row without its sandbox lost it. Foreign resources are never
//! listed by a provider and so never seen here.

use std::collections::HashMap;
use std::sync::Arc;

use emergent_provider::{ObservedState, WorkspaceProvider};
use emergent_store::WorkspaceRow;
use emergent_types::{ProviderKind, StopMode, WorkspaceId, WorkspaceStatus};

use crate::actor::{Actor, Phase, Request};
use crate::new_workspace::Named;
use crate::service::Context;
use crate::{Options, StartError};

/// What a provider sees of one id; `Unknown` when the provider could not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    Seen(ObservedState),
    Nothing,
    Unknown,
}

struct Observations {
    by_provider: HashMap<ProviderKind, Option<HashMap<WorkspaceId, ObservedState>>>,
}

impl Observations {
    async fn gather(context: &Context) -> Self {
        let mut by_provider = HashMap::new();
        for provider in context.orchestrator.providers() {
            let listed = match provider.list().await {
                Ok(listed) => Some(listed.into_iter().map(|found| (found.id, found.state)).collect()),
                Err(error) => {
                    tracing::warn!(provider = %provider.kind(), %error, "cannot compare with what exists: {error}");
                    None
                }
            };
            by_provider.insert(provider.kind(), listed);
        }
        Self { by_provider }
    }

    fn sight(&self, provider: ProviderKind, id: WorkspaceId) -> Sight {
        match self.by_provider.get(&provider) {
            Some(Some(listed)) => listed.get(&id).map_or(Sight::Nothing, |state| Sight::Seen(*state)),
            // A provider that is silent, or not configured any more: nothing is known.
            Some(None) | None => Sight::Unknown,
        }
    }
}

/// Gives every row an owner and destroys orphans.
pub(crate) async fn on_start(context: &Arc<Context>) -> Result<(), StartError> {
    let rows = context.store.workspaces_for_reconcile().await?;
    let observations = Observations::gather(context).await;
    for row in rows {
        let phase = first_phase(&context.options, &row, observations.sight(row.provider, row.id));
        tracing::info!(workspace = %row.id, status = %row.status, "workspace {} was {} and is {}",
            row.id, row.status, describe(&phase));
        let was_ready = matches!(phase, Phase::Ready);
        let entry = Actor::spawn(context, row, phase);
        if was_ready {
            // Makes the owner connect, and repair what cannot be connected to.
            entry.tell(Request::AgentLost);
        }
    }
    destroy_orphans(context, &observations).await;
    Ok(())
}

/// Where a row's life goes on after a start.
fn first_phase(options: &Options, row: &WorkspaceRow, sight: Sight) -> Phase {
    use ObservedState::{Running, Suspended};
    let replies = Vec::new;
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
        (WorkspaceStatus::Stopping, _) | (WorkspaceStatus::Stopped, Sight::Seen(Running)) => {
            Phase::Stopping { replies: replies(), mode: StopMode::Disk }
        }
        (WorkspaceStatus::Stopped, _) => Phase::Stopped,
        (WorkspaceStatus::Resuming, _) => Phase::Resuming { replies: replies(), after: None },
        (WorkspaceStatus::Destroying, _) => Phase::Destroying { replies: replies() },
        (WorkspaceStatus::Failed, _) => Phase::Failed,
    }
}

fn describe(phase: &Phase) -> &'static str {
    match phase {
        Phase::Creating { .. } => "created again",
        Phase::Ready => "adopted",
        Phase::Stopping { .. } => "stopped",
        Phase::Stopped => "kept",
        Phase::Resuming { .. } => "resumed",
        Phase::Failed => "left as it is",
        Phase::Destroying { .. } | Phase::Gone => "destroyed",
    }
}

/// Compares for ever.
pub(crate) async fn periodically(context: Arc<Context>) {
    loop {
        tokio::time::sleep(context.options.reconcile_interval).await;
        let observations = Observations::gather(&context).await;
        destroy_orphans(&context, &observations).await;
        for entry in context.registry.filter(|entry| entry.status() == WorkspaceStatus::Ready) {
            let sight = observations.sight(entry.view.borrow().provider, entry.id);
            let lost = matches!(
                sight,
                Sight::Nothing | Sight::Seen(ObservedState::Stopped | ObservedState::Partial)
            );
            if lost {
                entry.tell(Request::AgentLost);
            }
        }
    }
}

/// An owner exists before its sandbox and goes after it, so what was seen and has no owner
/// now is nobody's.
async fn destroy_orphans(context: &Context, observations: &Observations) {
    for provider in context.orchestrator.providers() {
        let Some(Some(listed)) = observations.by_provider.get(&provider.kind()) else { continue };
        for id in listed.keys().filter(|id| context.registry.get(**id).is_none()) {
            destroy_orphan(provider.as_ref(), *id).await;
        }
    }
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
