//! From a disk to ready again.

use std::time::Instant;

use emergent_store::{ClaimResumeError, ErrorUpdate, WarningsUpdate, WorkspaceUpdate};
use emergent_types::WorkspaceStatus;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Actor, Interrupted, Loss, Phase, Reply, answer};
use crate::LifecycleError;

impl Actor {
    /// Takes a place under the concurrency limit and writes `resuming`, in one transaction.
    pub(super) async fn claim_resume(&mut self) -> Result<(), LifecycleError> {
        let id = self.id;
        let row = self.context.store.claim_resume(id, self.context.options.max_concurrent).await;
        let row = row.map_err(|error| match error {
            ClaimResumeError::NotFound { .. } => LifecycleError::NotFound { id },
            ClaimResumeError::WrongStatus { status, .. } => LifecycleError::WrongState { id, status },
            ClaimResumeError::LimitReached { active, max, .. } => {
                LifecycleError::LimitReached { active, max }
            }
            ClaimResumeError::Store(error) => error.into(),
        })?;
        self.published.send_replace(row);
        Ok(())
    }

    pub(super) async fn resuming(&mut self, mut replies: Vec<Reply>, after: Option<Loss>) -> Phase {
        let id = self.id;
        let provider = match self.provider() {
            Ok(provider) => provider,
            Err(error) => {
                answer(replies, Err(error.clone()));
                return self.fail("provider_gone", error.to_string()).await;
            }
        };
        let client = self.agent_client(provider.clone());
        let spec = self.spec();
        let work = {
            let client = client.clone();
            async move {
                let failed = |reason: String| LifecycleError::Provider { id, reason };
                if after.is_some() {
                    // What is left of it may be mute rather than dead.
                    provider.stop(id).await.map_err(|error| failed(error.to_string()))?;
                }
                let sandbox = provider.resume(&spec).await.map_err(|error| failed(error.to_string()))?;
                client.greet().await.map_err(|error| failed(error.to_string()))?;
                Ok::<_, LifecycleError>(sandbox)
            }
        };
        match self.interruptible(Box::pin(work), &mut replies).await {
            Err(Interrupted(reply)) => {
                answer(replies, Err(LifecycleError::WrongState { id, status: WorkspaceStatus::Destroying }));
                Phase::Destroying { replies: vec![reply] }
            }
            Ok(Ok(sandbox)) => {
                let mut warnings = sandbox.warnings;
                if let Some(loss) = after {
                    self.recovered_at = Some(Instant::now());
                    warnings.push(loss.warning(emergent_store::now()));
                }
                self.presence.set_agent(Some(client));
                self.presence.activity.note();
                let update = WorkspaceUpdate {
                    provider_workspace_id: Some(sandbox.provider_id),
                    isolation: Some(sandbox.isolation),
                    network: Some(sandbox.network),
                    warnings: WarningsUpdate::Append(warnings),
                    error: ErrorUpdate::Clear,
                    last_used_at: Some(emergent_store::now()),
                    ..WorkspaceUpdate::to_status(WorkspaceStatus::Ready)
                };
                self.record(update).await;
                tracing::info!(workspace = %id, ?after, "workspace {id} is ready again");
                answer(replies, Ok(self.row()));
                Phase::Ready
            }
            Ok(Err(error)) => {
                answer(replies, Err(error.clone()));
                self.fail("resume_failed", error.to_string()).await
            }
        }
    }
}

impl Loss {
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
