//! The limits of a sandbox that runs are those of its row.
//!
//! A member of a pool gets a row first and then its limits, so a server that ends between the two leaves a sandbox
//! with others. The next one does not ask which: it gives every sandbox that it finds running the limits of its row,
//! which changes nothing where they are so already.

use std::sync::Arc;
use std::time::{Duration, Instant};

use emergent_orchestrator::{Attempt, NoProvider};
use emergent_provider::{ProviderError, SandboxSpec, WorkspaceProvider};
use emergent_store::WorkspaceRow;
use emergent_types::{AdjustableLimits, ResourceLimits};

use super::{Actor, Phase, Request};
use crate::new_workspace::Named;
use crate::{CreateError, LifecycleError};

/// When limits that could not be set are tried again.
const TRY_AGAIN: Duration = Duration::from_secs(10);

impl Actor {
    /// Gives the sandbox the limits of a row that is to be its own, where it had others.
    pub(super) async fn adjusted(
        &self,
        row: &WorkspaceRow,
        had: ResourceLimits,
        named: Named,
    ) -> Result<(), LifecycleError> {
        if row.resource_limits == had {
            return Ok(());
        }
        let spec = SandboxSpec { limits: row.resource_limits, named: named.demands, ..self.spec() };
        let adjusted = self.provider()?.adjust(&spec).await;
        adjusted.map_err(|error| LifecycleError::Provider { id: self.id, reason: error.to_string() })
    }

    /// Makes sure of the limits of a sandbox that an earlier server has left.
    pub(super) async fn uphold_limits(
        &mut self,
        provider: &Arc<dyn WorkspaceProvider>,
    ) -> Result<(), ProviderError> {
        if self.limits_in_doubt {
            // A provider that has not said whether it can is asked to.
            let known = self.context.orchestrator.known_capabilities(provider.kind()).await;
            if known.is_none_or(|known| known.adjustable != AdjustableLimits::NONE) {
                provider.adjust(&self.spec()).await?;
            }
        }
        self.limits_in_doubt = false;
        Ok(())
    }

    /// The same for one whose agent answers. What nobody was promised goes where that fails; somebody's is
    /// looked after again.
    pub(super) async fn uphold_limits_of_ready(
        &mut self,
        provider: &Arc<dyn WorkspaceProvider>,
    ) -> Option<Phase> {
        let error = self.uphold_limits(provider).await.err()?;
        tracing::warn!(workspace = %self.id, %error, "the limits of workspace {} are not sure: {error}", self.id);
        if self.row().warm_pool.is_some() {
            return Some(Phase::Destroying { replies: Vec::new() });
        }
        match error {
            // Never, or not while it runs as it does: its next start is told its limits.
            ProviderError::Unsupported { .. } | ProviderError::NotEnforceable { .. } => {
                self.limits_in_doubt = false;
                let warning =
                    "its limits could not be made sure of while it runs; stop and resume it for that";
                self.warn(warning.to_owned()).await;
            }
            ProviderError::NotRunning { .. } | ProviderError::NotFound { .. } => self.limits_in_doubt = false,
            // Somebody waits for the next try already.
            _ if self.limits_again_at.is_some_and(|at| Instant::now() < at) => {}
            _ => {
                self.limits_again_at = Some(Instant::now() + TRY_AGAIN);
                let (context, id) = (self.context.clone(), self.id);
                tokio::spawn(async move {
                    tokio::time::sleep(TRY_AGAIN).await;
                    if let Some(entry) = context.registry.get(id) {
                        entry.tell(Request::AgentLost);
                    }
                });
            }
        }
        None
    }

    /// There is a sandbox of other limits, and nothing can be done about it.
    pub(super) fn has_other_limits(&self, since: Instant, reason: String) -> CreateError {
        let attempt = Attempt {
            provider: self.row().provider,
            started_at: emergent_store::now(),
            duration: since.elapsed(),
            reason,
        };
        CreateError::NoProvider(NoProvider { attempts: vec![attempt], retryable: true, refusal: None })
    }
}
