//! From intent to a sandbox whose agent answers.

use std::time::Instant;

use emergent_orchestrator::{Attempt, NoProvider, Placement, Refusal};
use emergent_provider::{ImageDefaults, SandboxSpec};
use emergent_store::{AttemptOutcome, AttemptRecord, Repository, WarningsUpdate, WorkspaceUpdate};
use emergent_types::{ContainerType, WorkspaceStatus};
use serde_json::json;
use tokio::sync::oneshot;

use super::{Actor, CreateReply, Interrupted, Phase};
use crate::creation;
use crate::new_workspace::Named;
use crate::progress;
use crate::{CreateError, Place};

impl Actor {
    pub(super) async fn creating(&mut self, reply: Option<CreateReply>, named: Named) -> Phase {
        let demand = creation::demand(&self.row(), &self.context.options, named.isolation);
        let spec = SandboxSpec { named: named.demands, ..self.spec() };
        let orchestrator = self.context.orchestrator.clone();
        let row = self.row();
        let watching = progress::watch(&self.context, &self.presence, row.clone(), spec.clone());
        let snapshot = row.snapshot_id.as_deref().and_then(|id| id.parse().ok());
        let place = async move {
            match snapshot {
                None => orchestrator.place(&demand, &spec).await,
                Some(snapshot) => orchestrator.restore(row.provider, snapshot, &demand, &spec).await,
            }
        };
        // A future of this size would sit in every other await of the actor.
        let placed = match self.interruptible(Box::pin(place), &mut Vec::new()).await {
            Err(interrupted) => return self.cancelled(interrupted, reply),
            Ok(Err(no_provider)) => return self.no_provider(no_provider, reply).await,
            Ok(Ok(placement)) => placement,
        };
        drop(watching);
        let Some(provider) = self.context.orchestrator.provider(placed.provider) else {
            return self.fail("provider_gone", format!("provider {} has gone", placed.provider)).await;
        };
        self.context.reach(Place::CreateSandboxMade).await;
        // Recorded before the agent is spoken to: a crash from here on finds the provider.
        self.record(placed_update(&placed)).await;
        self.keep_image_defaults(placed.sandbox.image.as_ref()).await;
        self.context.reach(Place::CreateSandboxRecorded).await;
        // One that an earlier server has left is returned by a create as it is.
        let since = Instant::now();
        if let Err(error) = self.uphold_limits(&provider).await {
            let error = self.has_other_limits(since, error.to_string());
            return self.give_up("not_adjusted", error, reply).await;
        }
        let client = self.agent_client(provider);
        let greet = {
            let client = client.clone();
            async move { client.greet().await }
        };
        match self.interruptible(Box::pin(greet), &mut Vec::new()).await {
            Err(interrupted) => self.cancelled(interrupted, reply),
            Ok(Ok(_)) => {
                self.presence.set_agent(Some(client));
                self.context.reach(Place::CreateAgentGreeted).await;
                // Kept until it is ready: whoever connects in between must not miss it.
                self.offering =
                    self.has_code_to_come().then(|| self.guest().offer(&self.context.options.services));
                self.check_out(reply).await
            }
            Ok(Err(error)) => {
                let error = CreateError::AgentSilent { id: self.id, reason: error.to_string() };
                self.give_up("agent_unreachable", error, reply).await
            }
        }
    }

    /// What an MCP server's image wants to be run, for whoever starts it: now and after a restart.
    async fn keep_image_defaults(&self, image: Option<&ImageDefaults>) {
        let Some(image) = image.filter(|_| self.row().container_type == ContainerType::McpServer) else {
            return;
        };
        let kept = self.context.store.set_image_defaults(self.id, &json!(image)).await;
        if let Err(error) = kept {
            tracing::warn!(workspace = %self.id, %error, "what the image of {} runs is not kept: {error}", self.id);
        }
    }

    /// Everything is there.
    pub(super) async fn created(
        &mut self,
        repositories: Option<Vec<Repository>>,
        reply: Option<CreateReply>,
    ) -> Phase {
        self.presence.activity.note();
        // From here on the workspace is promised: it survives a crash.
        let ready = WorkspaceUpdate { repositories, ..WorkspaceUpdate::to_status(WorkspaceStatus::Ready) };
        let is_written = self.record(ready).await;
        if !is_written && let Some(reply) = reply {
            // A start would remove it, so nobody may be promised it.
            return self.give_up("not_recorded", CreateError::NotRecorded { id: self.id }, Some(reply)).await;
        }
        self.context.reach(Place::CreateReady).await;
        let row = self.row();
        tracing::info!(workspace = %self.id, provider = %row.provider, isolation = ?row.isolation,
            "workspace {} is ready on {}", self.id, row.provider);
        if let Some(stock) = self.context.pools.stock_of(&row) {
            stock.note_success();
            stock.offer(self.id);
        }
        if let Some(reply) = reply {
            let _ = reply.send(Ok(row));
        }
        Phase::Ready
    }

    pub(super) fn cancelled(&self, interrupted: Interrupted, reply: Option<CreateReply>) -> Phase {
        if let Some(reply) = reply {
            let _ = reply.send(Err(CreateError::Destroyed { id: self.id }));
        }
        Phase::Destroying { replies: interrupted.0.into_iter().collect() }
    }

    async fn no_provider(&mut self, failure: NoProvider, reply: Option<CreateReply>) -> Phase {
        let attempts = Some(failure.attempts.iter().map(attempt_record).collect());
        self.record(WorkspaceUpdate { attempts, ..WorkspaceUpdate::default() }).await;
        let (code, error) = match failure.refusal.clone() {
            Some(Refusal::NotEnforceable { field, reason }) => {
                ("not_enforceable", CreateError::NotEnforceable { field, reason })
            }
            Some(Refusal::ImageNotFound { reference, reason }) => {
                ("image_not_found", CreateError::ImageNotFound { reference, reason })
            }
            Some(Refusal::SnapshotNotFound { id }) => {
                ("snapshot_not_found", CreateError::SnapshotNotFound { id })
            }
            None => ("no_provider_available", CreateError::NoProvider(failure)),
        };
        self.give_up(code, error, reply).await
    }

    /// Whoever waits is told and no row stays; otherwise the row keeps the reason.
    pub(super) async fn give_up(
        &mut self,
        code: &str,
        error: CreateError,
        reply: Option<CreateReply>,
    ) -> Phase {
        let Some(reply) = reply else { return self.fail(code, error.to_string()).await };
        // The same request may try again. Should this fail, it is told that its workspace is gone.
        if let Err(error) = self.context.store.release_idempotency_key(self.id).await {
            tracing::warn!(workspace = %self.id, %error, "the key of a create that failed stays taken: {error}");
        }
        // The answer comes after the removal, so that "nothing is left" is true when it is read; a removal
        // that fails goes on, and keeps nobody waiting.
        let (removal, removed) = oneshot::channel();
        tokio::spawn(async move {
            let _ = removed.await;
            let _ = reply.send(Err(error));
        });
        self.destroying(vec![removal]).await
    }
}

fn placed_update(placed: &Placement) -> WorkspaceUpdate {
    let sandbox = &placed.sandbox;
    let mut attempts: Vec<_> = placed.attempts.iter().map(attempt_record).collect();
    attempts.push(AttemptRecord {
        provider: placed.provider,
        started_at: placed.started_at,
        duration_ms: u64::try_from(placed.duration.as_millis()).unwrap_or(u64::MAX),
        outcome: AttemptOutcome::Succeeded,
    });
    WorkspaceUpdate {
        provider: Some(placed.provider),
        provider_workspace_id: Some(sandbox.provider_id.clone()),
        isolation: Some(sandbox.isolation),
        network: Some(sandbox.network),
        persistence: Some(sandbox.persistence),
        disk_enforcement: Some(sandbox.disk_enforcement),
        attempts: Some(attempts),
        warnings: WarningsUpdate::Append(sandbox.warnings.clone()),
        ..WorkspaceUpdate::default()
    }
}

/// An attempt that came to nothing.
pub(super) fn attempt_record(attempt: &Attempt) -> AttemptRecord {
    AttemptRecord {
        provider: attempt.provider,
        started_at: attempt.started_at,
        duration_ms: u64::try_from(attempt.duration.as_millis()).unwrap_or(u64::MAX),
        outcome: AttemptOutcome::Failed { reason: attempt.reason.clone() },
    }
}
