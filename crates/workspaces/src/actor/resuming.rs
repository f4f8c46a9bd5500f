//! From a disk to ready again.

use std::time::{Duration, Instant};

use emergent_agent_client::{AgentClient, AgentError};
use emergent_provider::{ProviderError, Sandbox};
use emergent_store::{ClaimResumeError, ErrorUpdate, WarningsUpdate, WorkspaceError, WorkspaceUpdate};
use emergent_types::{WorkspaceId, WorkspaceStatus};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Actor, Interrupted, Loss, Phase, Reply, answer};
use crate::{LifecycleError, Place};

/// How often a sandbox that nobody waits for is tried to be started again, and how long after the last try.
const UNATTENDED_TRIES: u32 = 60;
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// How long the remains of a start may take to be stopped.
const CLEANUP_LIMIT: Duration = Duration::from_secs(20);

impl Actor {
    /// Takes a place under the concurrency limit and writes `resuming`, in one transaction.
    pub(super) async fn claim_resume(&mut self) -> Result<(), LifecycleError> {
        let id = self.id;
        self.context.reach(Place::ResumeBeforeTheIntent).await;
        let claimed = self.context.store.claim_resume(id, self.context.options.max_concurrent).await;
        let row = match claimed {
            // Nobody else writes this row: an earlier claim, of which nothing was heard, was written.
            Err(ClaimResumeError::WrongStatus { status: WorkspaceStatus::Resuming, .. }) => {
                let row = self.context.store.get_workspace(id).await.map_err(LifecycleError::from)?;
                row.ok_or(ClaimResumeError::NotFound { id })
            }
            claimed => claimed,
        };
        let row = row.map_err(|error| match error {
            ClaimResumeError::NotFound { .. } => LifecycleError::NotFound { id },
            ClaimResumeError::WrongStatus { status, .. } => LifecycleError::WrongState { id, status },
            ClaimResumeError::LimitReached { active, max, .. } => {
                LifecycleError::LimitReached { active, max }
            }
            ClaimResumeError::Store(error) => error.into(),
        })?;
        self.show(row);
        Ok(())
    }

    pub(super) async fn resuming(&mut self, mut replies: Vec<Reply>, after: Option<Loss>) -> Phase {
        let id = self.id;
        self.context.reach(Place::ResumeIntentWritten).await;
        let mut tries_left = UNATTENDED_TRIES;
        loop {
            let work = self.start_again(after);
            let failure = match self.interruptible(Box::pin(work), &mut replies).await {
                Err(interrupted) => return self.not_any_more(interrupted, replies),
                Ok(Ok((sandbox, client))) => return self.resumed(sandbox, client, after, replies).await,
                Ok(Err(failure)) => failure,
            };
            let error = match failure {
                StartFailure::Gone => {
                    let reason = "the sandbox and its disk are gone".to_owned();
                    answer(replies, Err(LifecycleError::Provider { id, reason: reason.clone() }));
                    return self.fail("sandbox_lost", reason).await;
                }
                StartFailure::Other(error) => error,
            };
            // Whoever waits is told at once and may ask again. Where nobody does, it is asked again here:
            // a provider that went away takes its sandboxes along, and comes back.
            if !replies.is_empty() || tries_left == 0 {
                return self.not_resumed(error, replies).await;
            }
            if self.context.is_closing() {
                // The next start goes on with it.
                return Phase::Gone;
            }
            tries_left -= 1;
            tracing::warn!(workspace = %id, %error, "workspace {id} is not resumed yet: {error}");
            let pause = Box::pin(tokio::time::sleep(TRY_AGAIN));
            if let Err(interrupted) = self.interruptible(pause, &mut replies).await {
                return self.not_any_more(interrupted, replies);
            }
        }
    }

    /// Starts a sandbox around its disk and greets its agent.
    fn start_again(
        &self,
        after: Option<Loss>,
    ) -> impl Future<Output = Result<(Sandbox, AgentClient), StartFailure>> + use<> {
        let (id, spec, provider) = (self.id, self.spec(), self.provider());
        let client = provider.as_ref().ok().map(|provider| self.agent_client(provider.clone()));
        async move {
            let provider = provider.map_err(StartFailure::Other)?;
            let client = client.ok_or(StartFailure::Gone)?;
            if after.is_some() {
                // What is left of it may be mute rather than dead.
                provider.stop(id).await.map_err(|error| StartFailure::of(id, &error))?;
            }
            let sandbox = provider.resume(&spec).await.map_err(|error| StartFailure::of(id, &error))?;
            let silent = |error: AgentError| LifecycleError::Provider { id, reason: error.to_string() };
            client.greet().await.map_err(|error| StartFailure::Other(silent(error)))?;
            Ok((sandbox, client))
        }
    }

    async fn resumed(
        &mut self,
        sandbox: Sandbox,
        client: AgentClient,
        after: Option<Loss>,
        replies: Vec<Reply>,
    ) -> Phase {
        let id = self.id;
        self.context.reach(Place::ResumeSandboxStarted).await;
        let mut warnings = sandbox.warnings;
        if let Some(loss) = after {
            self.recovered_at = Some(Instant::now());
            warnings.push(loss.warning(emergent_store::now()));
        }
        self.presence.set_agent(Some(client));
        // Whoever resumes it uses it; that it was lost and is back is no use.
        let used_at = after.is_none().then(emergent_store::now);
        if used_at.is_some() {
            self.presence.activity.note();
        }
        let update = WorkspaceUpdate {
            provider_workspace_id: Some(sandbox.provider_id),
            isolation: Some(sandbox.isolation),
            network: Some(sandbox.network),
            warnings: WarningsUpdate::Append(warnings),
            error: ErrorUpdate::Clear,
            last_used_at: used_at,
            ..WorkspaceUpdate::to_status(WorkspaceStatus::Ready)
        };
        self.record(update).await;
        self.context.reach(Place::ResumeWritten).await;
        tracing::info!(workspace = %id, ?after, "workspace {id} is ready again");
        answer(replies, Ok(self.row()));
        Phase::Ready
    }

    /// Its disk is there, and it may be resumed when whatever was in the way is not any more.
    async fn not_resumed(&mut self, error: LifecycleError, replies: Vec<Reply>) -> Phase {
        let id = self.id;
        if self.row().warm_pool.is_some() {
            return self.fail("resume_failed", error.to_string()).await;
        }
        tracing::warn!(workspace = %id, %error, "workspace {id} is not resumed: {error}");
        let phase = self.left_stopped("resume_failed", "the resume failed", error.to_string()).await;
        answer(replies, Err(error));
        phase
    }

    /// Its sandbox does not run, its disk is there, and the row says why.
    pub(super) async fn left_stopped(&mut self, code: &str, why: &'static str, message: String) -> Phase {
        let id = self.id;
        if let Ok(provider) = self.provider() {
            // What has started half way must not go on while the row says that it is stopped.
            match tokio::time::timeout(CLEANUP_LIMIT, provider.stop(id)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(workspace = %id, %error, "what has started of it stays: {error}");
                }
                Err(_) => {
                    tracing::warn!(workspace = %id, "what has started of it stays: its provider is silent");
                }
            }
        }
        self.why = Some((WorkspaceStatus::Stopped, why));
        let said = WorkspaceError { code: code.to_owned(), message };
        let update = WorkspaceUpdate {
            error: ErrorUpdate::Set(said),
            ..WorkspaceUpdate::to_status(WorkspaceStatus::Stopped)
        };
        self.record(update).await;
        Phase::Stopped
    }

    fn not_any_more(&self, interrupted: Interrupted, replies: Vec<Reply>) -> Phase {
        let status = WorkspaceStatus::Destroying;
        answer(replies, Err(LifecycleError::WrongState { id: self.id, status }));
        Phase::Destroying { replies: interrupted.0.into_iter().collect() }
    }
}

/// Why a sandbox was not started again.
enum StartFailure {
    /// There is nothing to start.
    Gone,
    /// It may work another time.
    Other(LifecycleError),
}

impl StartFailure {
    fn of(id: WorkspaceId, error: &ProviderError) -> Self {
        match error {
            ProviderError::NotFound { .. } => Self::Gone,
            other => Self::Other(LifecycleError::Provider { id, reason: other.to_string() }),
        }
    }
}

impl Loss {
    /// Why it is started again, in short.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::OutOfMemory => "the sandbox ran out of memory",
            Self::Unexplained => "the sandbox was lost",
        }
    }

    /// What the user is told when the sandbox is back.
    fn warning(self, now: OffsetDateTime) -> String {
        let now = rfc3339(now);
        match self {
            Self::OutOfMemory => format!(
                "oom_restarted: the whole sandbox ran out of memory and was started again around its disk at {now}: processes and /tmp are gone"
            ),
            Self::Unexplained => format!(
                "the sandbox was lost and started again around its disk at {now}: processes and /tmp are gone"
            ),
        }
    }
}

fn rfc3339(instant: OffsetDateTime) -> String {
    instant.format(&Rfc3339).unwrap_or_else(|_| instant.to_string())
}
