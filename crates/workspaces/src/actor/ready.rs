//! Waiting for requests, and looking after the agent.

use std::time::Duration;

use emergent_provider::{ObservedState, ProviderError};
use emergent_store::WorkspaceUpdate;
use emergent_types::WorkspaceStatus;

use super::{Actor, Loss, Phase, Request, answer};
use crate::admission::{Verdict, Wish, judge};
use crate::services::Guest;

/// How long a dead agent may take to come back by itself: its init starts it again.
const AGENT_RETURN: Duration = Duration::from_secs(5);

/// How long a recovered sandbox must live before it is worth another recovery.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// How long between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Actor {
    pub(super) async fn ready(&mut self) -> Phase {
        let _offering = self.guest().offer(&self.context.options.services);
        loop {
            match self.next_request().await {
                Some(Request::Wish(wish, reply)) => match (judge(WorkspaceStatus::Ready, wish), wish) {
                    (Verdict::Begin, Wish::Stop(mode)) => {
                        return Phase::Stopping { replies: vec![reply], mode };
                    }
                    (Verdict::Begin, Wish::Destroy | Wish::Resume) => {
                        if let Some(replies) = self.intend(WorkspaceStatus::Destroying, reply).await {
                            return Phase::Destroying { replies };
                        }
                    }
                    (Verdict::AlreadySo, _) => answer([reply], Ok(self.row())),
                    (Verdict::Join | Verdict::Refuse, _) => answer([reply], Err(self.wrong_state())),
                },
                Some(Request::Expire) => {
                    if self.presence.activity.is_over(emergent_store::now()) {
                        tracing::info!(workspace = %self.id, "workspace {} has expired", self.id);
                        return Phase::Destroying { replies: Vec::new() };
                    }
                }
                Some(Request::AgentLost) => {
                    if let Some(next) = self.look_after_agent().await {
                        return next;
                    }
                }
                Some(Request::Warn(warning)) => self.warn(warning).await,
                None => return Phase::Gone,
            }
        }
    }

    fn guest(&self) -> Guest {
        Guest { id: self.id, presence: self.presence.clone(), row: self.published.subscribe() }
    }

    /// Finds out what became of the agent. `None`: it answers again.
    async fn look_after_agent(&mut self) -> Option<Phase> {
        let provider = match self.provider() {
            Ok(provider) => provider,
            Err(error) => return Some(self.fail("provider_gone", error.to_string()).await),
        };
        let client = self.presence.agent().unwrap_or_else(|| self.agent_client(provider.clone()));
        let deadline = tokio::time::Instant::now() + AGENT_RETURN;
        let mut interruption = None;
        loop {
            let greet = {
                let client = client.clone();
                async move { client.greet().await }
            };
            match self.interruptible_by_any(Box::pin(greet)).await {
                Ok(Ok(_)) => break,
                Ok(Err(error)) => {
                    tracing::warn!(workspace = %self.id, %error, "the agent of workspace {} is silent", self.id);
                }
                Err(phase) => {
                    interruption = Some(phase);
                    break;
                }
            }
            let is_late = tokio::time::Instant::now() > deadline;
            match self.observed(&provider).await {
                Ok(Some(ObservedState::Running)) if !is_late => {}
                Ok(state) => return Some(self.sandbox_lost(&provider, state).await),
                // Not knowing is no reason to tear anything down. Calls dial again when they come,
                // and the next comparison with what exists looks after it again.
                Err(error) if is_late => {
                    tracing::warn!(workspace = %self.id, %error,
                        "nothing is known of workspace {} for now: {error}", self.id);
                    break;
                }
                Err(_) => {}
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        if interruption.is_none() {
            self.presence.set_agent(Some(client));
        }
        interruption
    }

    async fn observed(
        &self,
        provider: &std::sync::Arc<dyn emergent_provider::WorkspaceProvider>,
    ) -> Result<Option<ObservedState>, ProviderError> {
        let listed = provider.list().await?;
        Ok(listed.iter().find(|sandbox| sandbox.id == self.id).map(|sandbox| sandbox.state))
    }

    /// The sandbox is gone or mute. Its disk is worth one resume, and another whenever it is clear
    /// that what ran in it was too large and nothing is wrong with the sandbox.
    async fn sandbox_lost(
        &mut self,
        provider: &std::sync::Arc<dyn emergent_provider::WorkspaceProvider>,
        state: Option<ObservedState>,
    ) -> Phase {
        self.presence.set_agent(None);
        if state.is_none() {
            return self.fail("sandbox_lost", "the sandbox and its disk are gone".to_owned()).await;
        }
        let loss = match provider.ended_for_want_of_memory(self.id).await {
            true => Loss::OutOfMemory,
            false => Loss::Unexplained,
        };
        let was_recovered = self.recovered_at.is_some_and(|then| then.elapsed() < HEALTHY_AFTER);
        if was_recovered && loss == Loss::Unexplained {
            let reason = "the sandbox was lost again right after it had been resumed".to_owned();
            return self.fail("sandbox_lost", reason).await;
        }
        let update = WorkspaceUpdate {
            resume_attempts: Some(self.row().resume_attempts + 1),
            ..WorkspaceUpdate::to_status(WorkspaceStatus::Resuming)
        };
        self.record(update).await;
        Phase::Resuming { replies: Vec::new(), after: Some(loss) }
    }

    /// Like `interruptible`, but in `Ready` a stop leads out too.
    async fn interruptible_by_any<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Phase> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                result = &mut work => return Ok(result),
                request = self.requests.recv() => match request {
                    Some(Request::Wish(wish, reply)) => match (judge(WorkspaceStatus::Ready, wish), wish) {
                        (Verdict::Begin, Wish::Stop(mode)) => {
                            return Err(Phase::Stopping { replies: vec![reply], mode });
                        }
                        (Verdict::Begin, Wish::Destroy | Wish::Resume) => {
                            return Err(Phase::Destroying { replies: vec![reply] });
                        }
                        (Verdict::AlreadySo, _) => answer([reply], Ok(self.row())),
                        (Verdict::Join | Verdict::Refuse, _) => answer([reply], Err(self.wrong_state())),
                    },
                    Some(Request::Warn(warning)) => self.warn(warning).await,
                    Some(Request::Expire | Request::AgentLost) => {}
                    None => return Ok(work.await),
                },
            }
        }
    }
}
