//! From anything to nothing.

use std::time::Duration;

use emergent_provider::ProviderError;
use emergent_store::WorkspaceUpdate;
use emergent_types::WorkspaceStatus;

use super::{Actor, Phase, Reply, Request, answer};
use crate::LifecycleError;
use crate::admission::{Verdict, Wish, judge};

/// How long until a destroy that failed is tried again by itself.
const TRY_AGAIN: Duration = Duration::from_secs(5);

impl Actor {
    /// Removes the sandbox, then the row. Does not give up: whoever waits is told of the
    /// first failure, and the work goes on until it succeeds.
    pub(super) async fn destroying(&mut self, mut replies: Vec<Reply>) -> Phase {
        self.record(WorkspaceUpdate::to_status(WorkspaceStatus::Destroying)).await;
        if let Some(client) = self.presence.take_agent() {
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
                }
            }
            self.wait_for_another_try(&mut replies).await;
        }
        tracing::info!(workspace = %self.id, "workspace {} is destroyed", self.id);
        // Not findable any more before anybody hears of it: a 404 follows the confirmation.
        self.context.registry.remove(self.id);
        self.requests.close();
        while let Ok(request) = self.requests.try_recv() {
            match request {
                Request::Wish(Wish::Destroy, reply) => replies.push(reply),
                Request::Wish(_, reply) => answer([reply], Err(LifecycleError::NotFound { id: self.id })),
                Request::Expire | Request::AgentLost | Request::Warn(_) => {}
            }
        }
        answer(replies, Ok(self.row()));
        Phase::Gone
    }

    async fn remove(&self) -> Result<(), LifecycleError> {
        let id = self.id;
        let failed = |error: ProviderError| LifecycleError::Provider { id, reason: error.to_string() };
        // A create that was cut off may have left something with any provider of its chain.
        for provider in self.context.orchestrator.providers() {
            provider.destroy(id).await.map_err(failed)?;
        }
        self.context.store.delete_workspace(id).await?;
        Ok(())
    }

    async fn wait_for_another_try(&mut self, replies: &mut Vec<Reply>) {
        let timer = tokio::time::sleep(TRY_AGAIN);
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
                    Some(_) => {}
                    None => {
                        timer.as_mut().await;
                        return;
                    }
                },
            }
        }
    }
}
