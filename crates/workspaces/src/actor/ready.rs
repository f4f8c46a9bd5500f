//! Waiting for requests, and looking after the agent.

use std::time::Duration;

use emergent_provider::{ObservedState, ProviderError};
use emergent_store::{ErrorUpdate, WorkspaceError, WorkspaceUpdate};
use emergent_types::{StopMode, WorkspaceStatus};

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
        self.why = None;
        match self.presence.resting.is_so() {
            true => self.presence.contact.rest(),
            false => self.presence.contact.begin(),
        }
        // Kept from before, where there was something before: who connects in between must not miss it.
        let offering = self.offering.take();
        let _offering = offering.unwrap_or_else(|| self.guest().offer(&self.context.options.services));
        loop {
            let request = match std::mem::take(&mut self.is_in_doubt) {
                true => Some(Request::AgentLost),
                false => self.next_request().await,
            };
            match request {
                Some(Request::Wish(wish, reply)) => match (judge(WorkspaceStatus::Ready, wish), wish) {
                    (Verdict::Begin, Wish::Stop(mode)) => {
                        return Phase::Stopping { replies: vec![reply], mode };
                    }
                    (Verdict::Begin, Wish::Destroy | Wish::Resume | Wish::Remake) => {
                        if let Some(replies) = self.intend(WorkspaceStatus::Destroying, reply).await {
                            return Phase::Destroying { replies };
                        }
                    }
                    (Verdict::AlreadySo, _) => answer([reply], Ok(self.row())),
                    (Verdict::Join | Verdict::Refuse, _) => answer([reply], Err(self.wrong_state())),
                },
                Some(Request::Expire) => {
                    if self.presence.activity.close_if_over() {
                        return self.expired();
                    }
                }
                Some(Request::Rest { unused_for }) => {
                    if let Some(phase) = self.rest(unused_for).await {
                        return phase;
                    }
                }
                Some(Request::Pause { unused_for }) => self.stand_still(unused_for).await,
                Some(Request::Wake(reply)) => {
                    self.go_on().await;
                    // Whoever comes finds the agent, or that it does not answer.
                    let _ = reply.send(());
                }
                Some(Request::AgentLost) => {
                    self.withdraw_from_pool();
                    let next = self.look_after_agent().await;
                    for aside in std::mem::take(&mut self.deferred) {
                        match next {
                            None => self.aside(aside).await,
                            Some(_) => aside.refuse(self.wrong_state()),
                        }
                    }
                    if let Some(next) = next {
                        return next;
                    }
                    self.offer_to_pool();
                }
                Some(Request::Warn(warning)) => self.warn(warning).await,
                Some(Request::Aside(aside)) => self.aside(aside).await,
                Some(Request::Claim(claim)) => match self.claimed(*claim).await {
                    // Its services are on offer already, to whoever has it.
                    Phase::Ready => self.offer_to_pool(),
                    next => return next,
                },
                Some(Request::Retire(reply)) => {
                    if let Some(next) = self.retired(reply) {
                        return next;
                    }
                }
                None => return Phase::Gone,
            }
        }
    }

    /// Nobody uses it: what runs stands still, or ends where its provider cannot do that.
    async fn rest(&mut self, unused_for: Duration) -> Option<Phase> {
        let was_tried = self.stopped_in_vain_at.is_some_and(|then| then.elapsed() < unused_for);
        if was_tried || self.row().warm_pool.is_some() {
            return None;
        }
        let mode = match self.provider() {
            Ok(provider) if provider.capabilities().await.suspend => StopMode::Memory,
            _ => StopMode::Disk,
        };
        // Nothing begins from here until it is said that it is being stopped.
        if !self.presence.activity.close_if_idle(unused_for) {
            return None;
        }
        tracing::info!(workspace = %self.id, "workspace {} is not used and is stopped, {mode} kept", self.id);
        self.why = Some((WorkspaceStatus::Stopping, "nobody used it"));
        Some(Phase::Stopping { replies: Vec::new(), mode })
    }

    /// While it is nobody's and answers, it can be had.
    fn offer_to_pool(&self) {
        if let Some(stock) = self.context.pools.stock_of(&self.row()) {
            stock.offer(self.id);
        }
    }

    fn withdraw_from_pool(&self) {
        if let Some(stock) = self.context.pools.stock_of(&self.row()) {
            stock.withdraw(self.id);
        }
    }

    pub(super) fn guest(&self) -> Guest {
        Guest { id: self.id, presence: self.presence.clone(), row: self.published.subscribe() }
    }

    /// Finds out what became of the agent. `None`: it answers again.
    async fn look_after_agent(&mut self) -> Option<Phase> {
        let provider = match self.provider() {
            Ok(provider) => provider,
            // Left out of the configuration, or not found when this server started: its sandboxes may be
            // as they were, and a start that finds it finds them.
            Err(error) => {
                tracing::warn!(workspace = %self.id, %error, "nothing is known of workspace {}: {error}", self.id);
                return None;
            }
        };
        // What stands still answers nobody. One that does not go on is seen so below.
        if self.presence.resting.is_so() {
            self.go_on().await;
            self.is_in_doubt = false;
            self.presence.contact.begin();
        }
        let client = self.presence.agent().unwrap_or_else(|| self.agent_client(provider.clone()));
        let mut deadline = tokio::time::Instant::now() + AGENT_RETURN;
        let (mut interruption, mut is_woken) = (None, false);
        loop {
            let greet = {
                let client = client.clone();
                let deadline = self.deadline_unix_ms();
                // Whoever offers services may have connected first; one stream is enough.
                async move {
                    match client.part(deadline).await {
                        Ok(Some(_)) => Ok(()),
                        _ => client.greet().await.map(drop),
                    }
                }
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
                // Held by somebody who did not come to let it go: nothing in it is lost.
                Ok(Some(ObservedState::Suspended)) if !is_woken => {
                    let (provider, spec) = (provider.clone(), self.spec());
                    let waking = Box::pin(async move { provider.resume(&spec).await.map(drop) });
                    match self.interruptible_by_any(waking).await {
                        Ok(Ok(())) => {
                            is_woken = true;
                            deadline = tokio::time::Instant::now() + AGENT_RETURN;
                        }
                        Ok(Err(error)) => {
                            self.provider_was_away = true;
                            tracing::warn!(workspace = %self.id, %error,
                                "workspace {} stands still: {error}", self.id);
                            break;
                        }
                        Err(phase) => {
                            interruption = Some(phase);
                            break;
                        }
                    }
                }
                Ok(state) => return Some(self.sandbox_lost(&provider, state).await),
                // Whoever runs it is away, and may have taken it along.
                Err(error) if !is_late => {
                    tracing::debug!(workspace = %self.id, %error, "workspace {} cannot be seen: {error}", self.id);
                    self.provider_was_away = true;
                }
                // Not knowing is no reason to tear anything down. Calls dial again when they come,
                // and the next comparison with what exists looks after it again.
                Err(error) => {
                    self.provider_was_away = true;
                    tracing::warn!(workspace = %self.id, %error,
                        "nothing is known of workspace {} for now: {error}", self.id);
                    break;
                }
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        if interruption.is_none() {
            // Before any tool reaches it.
            interruption = self.uphold_limits_of_ready(&provider).await;
            self.presence.set_agent(Some(client));
        }
        interruption
    }

    /// A stopped workspace has a disk, and nothing of it runs. What is not so is mended, or said: a disk that is
    /// not to be seen may be back tomorrow, so that is for whoever resumes it to find out.
    pub(super) async fn look_after_disk(&mut self) {
        let Ok(provider) = self.provider() else { return };
        match self.observed(&provider).await {
            Ok(None) if self.row().error.is_none() => {
                tracing::error!(workspace = %self.id, "the disk of stopped workspace {} is gone", self.id);
                let message = "the disk of the stopped sandbox is gone".to_owned();
                let error = ErrorUpdate::Set(WorkspaceError { code: "sandbox_lost".to_owned(), message });
                self.record(WorkspaceUpdate { error, ..WorkspaceUpdate::default() }).await;
            }
            Ok(Some(ObservedState::Running)) => {
                tracing::warn!(workspace = %self.id, "stopped workspace {} runs and is stopped again", self.id);
                if let Err(error) = provider.stop(self.id).await {
                    tracing::warn!(workspace = %self.id, %error, "workspace {} still runs: {error}", self.id);
                }
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(workspace = %self.id, %error, "workspace {} cannot be seen: {error}", self.id);
            }
        }
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
        if self.row().warm_pool.is_some() {
            return Phase::Destroying { replies: Vec::new() };
        }
        if state.is_none() {
            return self.fail("sandbox_lost", "the sandbox and its disk are gone".to_owned()).await;
        }
        let loss = match provider.ended_for_want_of_memory(self.id).await {
            true => Loss::OutOfMemory,
            false => Loss::Unexplained,
        };
        let was_recovered = self.recovered_at.is_some_and(|then| then.elapsed() < HEALTHY_AFTER);
        // A sandbox that went with its provider says nothing about itself.
        let went_along = std::mem::take(&mut self.provider_was_away);
        if was_recovered && loss == Loss::Unexplained && !went_along {
            let reason = "the sandbox was lost again right after it had been resumed".to_owned();
            tracing::error!(workspace = %self.id, "workspace {} is left stopped: {reason}", self.id);
            // Whoever resumes it by hand has its files.
            return self.left_stopped("sandbox_lost", "the sandbox was lost again", reason).await;
        }
        let update = WorkspaceUpdate {
            resume_attempts: Some(self.row().resume_attempts + 1),
            ..WorkspaceUpdate::to_status(WorkspaceStatus::Resuming)
        };
        self.why = Some((WorkspaceStatus::Resuming, loss.reason()));
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
                        (Verdict::Begin, Wish::Destroy | Wish::Resume | Wish::Remake) => {
                            return Err(Phase::Destroying { replies: vec![reply] });
                        }
                        (Verdict::AlreadySo, _) => answer([reply], Ok(self.row())),
                        (Verdict::Join | Verdict::Refuse, _) => answer([reply], Err(self.wrong_state())),
                    },
                    Some(Request::Warn(warning)) => self.warn(warning).await,
                    Some(Request::Claim(claim)) => claim.refuse(),
                    Some(Request::Aside(aside)) => self.deferred.push(aside),
                    Some(Request::Retire(reply)) => {
                        if let Some(phase) = self.retired(reply) {
                            return Err(phase);
                        }
                    }
                    Some(Request::Wake(reply)) => {
                        let _ = reply.send(());
                    }
                    Some(Request::Expire | Request::Rest { .. } | Request::Pause { .. }) => {}
                    Some(Request::AgentLost) => {}
                    None => return Ok(work.await),
                },
            }
        }
    }
}
