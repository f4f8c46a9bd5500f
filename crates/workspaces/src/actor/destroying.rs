//! From anything to nothing.

use std::time::Duration;

use emergent_provider::WorkspaceProvider;
use emergent_store::WorkspaceUpdate;
use emergent_types::{WorkspaceId, WorkspaceStatus};

use super::{Actor, Phase, Reply, Request, answer};
use crate::admission::{Verdict, Wish, judge};
use crate::events;
use crate::{LifecycleError, Place};

/// How long until a destroy that failed is tried again by itself.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// The same where its provider is not one of this server's: only a start with another configuration helps.
const PROVIDER_IS_MISSING: Duration = Duration::from_secs(10 * 60);

/// How long a provider may take that most likely has nothing of a workspace.
const ELSEWHERE_LIMIT: Duration = Duration::from_secs(5);

impl Actor {
    /// Removes the sandbox, then the row. Does not give up: whoever waits is told of the
    /// first failure, and the work goes on until it succeeds.
    pub(super) async fn destroying(&mut self, mut replies: Vec<Reply>) -> Phase {
        self.record(WorkspaceUpdate::to_status(WorkspaceStatus::Destroying)).await;
        self.context.reach(Place::DestroyIntentWritten).await;
        // In what stands still nothing runs that could save anything.
        let stands_still = self.presence.resting.is_so();
        self.presence.resting.end();
        if let Some(client) = self.presence.take_agent().filter(|_| !stands_still) {
            // SIGTERM first: what is running may save its work.
            let quiesced = client.quiesce(self.context.options.grace).await;
            if let Err(error) = quiesced {
                tracing::debug!(workspace = %self.id, %error, "not quiesced before destroy");
            }
        }
        loop {
            match self.remove().await {
                Ok(()) => break,
                Err(error) => {
                    tracing::error!(workspace = %self.id, %error, "workspace {} could not be destroyed", self.id);
                    answer(replies.drain(..), Err(error));
                    // The next start goes on with it.
                    if self.context.is_closing() {
                        return Phase::Gone;
                    }
                }
            }
            let pause = match self.has_lost_its_provider() {
                true => PROVIDER_IS_MISSING,
                false => TRY_AGAIN,
            };
            self.wait_for_another_try(pause, &mut replies).await;
        }
        tracing::info!(workspace = %self.id, "workspace {} is destroyed", self.id);
        // Not findable any more before anybody hears of it: a 404 follows the confirmation.
        self.context.registry.remove(self.id);
        self.tell(events::of_end(&self.row()));
        self.requests.close();
        while let Ok(request) = self.requests.try_recv() {
            match request {
                Request::Wish(Wish::Destroy, reply) => replies.push(reply),
                Request::Wish(_, reply) => answer([reply], Err(LifecycleError::NotFound { id: self.id })),
                Request::Retire(reply) => replies.extend(reply),
                Request::Claim(claim) => claim.refuse(),
                Request::Aside(aside) => aside.refuse(LifecycleError::NotFound { id: self.id }),
                Request::Expire | Request::Rest { .. } | Request::Pause { .. } => {}
                Request::Wake(_) | Request::AgentLost | Request::Warn(_) => {}
            }
        }
        answer(replies, Ok(self.row()));
        Phase::Gone
    }

    async fn remove(&self) -> Result<(), LifecycleError> {
        self.remove_sandbox().await?;
        self.context.reach(Place::DestroySandboxRemoved).await;
        self.context.store.delete_workspace(self.id).await?;
        self.context.reach(Place::DestroyRowRemoved).await;
        Ok(())
    }

    /// Whether it was made somewhere: the isolation is written together with the place, and before that the row
    /// names whoever would have been asked first.
    fn is_placed(&self) -> bool {
        self.row().isolation.is_some()
    }

    fn has_lost_its_provider(&self) -> bool {
        self.is_placed() && self.provider().is_err()
    }

    /// Removes what providers have of it.
    pub(super) async fn remove_sandbox(&self) -> Result<(), LifecycleError> {
        let id = self.id;
        let row = self.row();
        let is_placed = self.is_placed();
        if is_placed {
            match self.provider() {
                Ok(_) => {}
                Err(error) if self.presence.is_given_up() => {
                    tracing::warn!(workspace = %id, provider = %row.provider, security = true, event = "forced_destroy",
                        "workspace {id} is forgotten, and what {} has of it stays: {error}", row.provider);
                }
                // Without it nobody can tell that nothing is left.
                Err(error) => return Err(error),
            }
        }
        let orchestrator = &self.context.orchestrator;
        // A create that was cut off may have left something with any provider of its chain.
        let removals = orchestrator.providers().iter().map(|provider| {
            let kind = provider.kind();
            let must_succeed = match is_placed {
                true => kind == row.provider,
                false => orchestrator.is_healthy(kind),
            };
            async move {
                match must_succeed {
                    true => provider
                        .destroy(id)
                        .await
                        .map_err(|error| LifecycleError::Provider { id, reason: error.to_string() }),
                    false => {
                        remove_elsewhere(provider.as_ref(), id).await;
                        Ok(())
                    }
                }
            }
        });
        for removed in futures::future::join_all(removals).await {
            removed?;
        }
        Ok(())
    }

    async fn wait_for_another_try(&mut self, pause: Duration, replies: &mut Vec<Reply>) {
        let timer = tokio::time::sleep(pause);
        tokio::pin!(timer);
        loop {
            tokio::select! {
                () = &mut timer => return,
                request = self.requests.recv() => match request {
                    Some(Request::Wish(wish, reply)) => match judge(WorkspaceStatus::Destroying, wish) {
                        Verdict::Join => {
                            replies.push(reply);
                            return;
                        }
                        _ => answer([reply], Err(self.wrong_state())),
                    },
                    Some(Request::Retire(reply)) => replies.extend(reply),
                    Some(Request::Claim(claim)) => claim.refuse(),
                    Some(Request::Aside(aside)) => aside.refuse(self.wrong_state()),
                    Some(_) => {}
                    // The server goes down, and the next start goes on with it.
                    None => return,
                },
            }
        }
    }
}

/// Removes what a create may have left where the workspace does not live. One that is away keeps nobody
/// waiting: without its row, what is left there is an orphan and goes when it is seen.
async fn remove_elsewhere(provider: &dyn WorkspaceProvider, id: WorkspaceId) {
    let kind = provider.kind();
    match tokio::time::timeout(ELSEWHERE_LIMIT, provider.destroy(id)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::debug!(workspace = %id, provider = %kind, %error, "not looked for on {kind}");
        }
        Err(_) => {
            tracing::debug!(workspace = %id, provider = %kind, "not looked for on {kind}: it is silent");
        }
    }
}
