//! From ready to only a disk, or to standing still.

use std::time::Instant;

use emergent_agent_client::AgentClient;
use emergent_store::{WarningsUpdate, WorkspaceUpdate};
use emergent_types::{StopMode, WorkspaceStatus};

use super::{Actor, Interrupted, Phase, Reply, answer};
use crate::{LifecycleError, Place};

impl Actor {
    pub(super) async fn stopping(&mut self, mut replies: Vec<Reply>, mode: StopMode) -> Phase {
        self.context.reach(Place::StopBeforeTheIntent).await;
        let written = self.write(WorkspaceUpdate::to_status(WorkspaceStatus::Stopping)).await;
        // Whoever comes now sees that it is being stopped.
        self.presence.activity.reopen();
        if let Err(error) = written {
            answer(replies, Err(error));
            return Phase::Ready;
        }
        self.context.reach(Place::StopIntentWritten).await;
        if mode == StopMode::Disk {
            // So that it can save what it has.
            self.go_on().await;
        }
        self.presence.resting.end();
        let client = self.presence.take_agent();
        let kept = client.clone();
        let grace = self.context.options.grace;
        let provider = self.provider();
        let id = self.id;
        let work = async move {
            let provider = provider?;
            let stopped = match mode {
                StopMode::Memory => provider.suspend(id).await,
                StopMode::Disk => {
                    if let Some(client) = client
                        && let Err(error) = client.quiesce(grace).await
                    {
                        tracing::warn!(workspace = %id, %error,
                            "workspace {id} could not be quiesced before its stop");
                    }
                    provider.stop(id).await
                }
            };
            stopped.map_err(|error| LifecycleError::Provider { id, reason: error.to_string() })
        };
        match self.interruptible(Box::pin(work), &mut replies).await {
            Err(Interrupted(reply)) => {
                // What was asked to end is given its time by whoever destroys it. What stands still cannot use it.
                self.presence.set_agent(kept.filter(|_| mode == StopMode::Disk));
                answer(replies, Err(LifecycleError::WrongState { id, status: WorkspaceStatus::Destroying }));
                Phase::Destroying { replies: reply.into_iter().collect() }
            }
            Ok(Ok(())) => {
                self.context.reach(Place::StopSandboxStopped).await;
                let update = WorkspaceUpdate {
                    last_used_at: Some(emergent_store::now()),
                    ..WorkspaceUpdate::to_status(WorkspaceStatus::Stopped)
                };
                self.presence.activity.note();
                self.record(update).await;
                self.context.reach(Place::StopWritten).await;
                tracing::info!(workspace = %id, "workspace {id} is stopped, {mode} kept");
                answer(replies, Ok(self.row()));
                Phase::Stopped
            }
            Ok(Err(error)) => {
                self.not_stopped(mode, &error, kept).await;
                answer(replies, Err(error));
                Phase::Ready
            }
        }
    }

    /// Whoever runs it may be away for a moment, and its files are there: it goes on as it was, and what is
    /// missing of it is looked after.
    async fn not_stopped(&mut self, mode: StopMode, error: &LifecycleError, client: Option<AgentClient>) {
        tracing::warn!(workspace = %self.id, %error, "workspace {} is not stopped: {error}", self.id);
        let warning = match mode {
            StopMode::Memory => format!("a stop failed: {error}"),
            StopMode::Disk => format!("a stop failed after its processes were asked to end: {error}"),
        };
        self.presence.set_agent(client);
        self.stopped_in_vain_at = Some(Instant::now());
        self.why = Some((WorkspaceStatus::Ready, "the stop failed"));
        let update = WorkspaceUpdate {
            warnings: WarningsUpdate::Append(vec![warning]),
            ..WorkspaceUpdate::to_status(WorkspaceStatus::Ready)
        };
        self.record(update).await;
        self.is_in_doubt = true;
    }
}
