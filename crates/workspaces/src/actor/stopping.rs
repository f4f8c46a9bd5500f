//! From ready to only a disk, or to standing still.

use emergent_store::WorkspaceUpdate;
use emergent_types::{StopMode, WorkspaceStatus};

use super::{Actor, Interrupted, Phase, Reply, answer};
use crate::LifecycleError;

impl Actor {
    pub(super) async fn stopping(&mut self, mut replies: Vec<Reply>, mode: StopMode) -> Phase {
        if let Err(error) = self.write(WorkspaceUpdate::to_status(WorkspaceStatus::Stopping)).await {
            answer(replies, Err(error));
            return Phase::Ready;
        }
        let client = self.presence.take_agent();
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
                answer(replies, Err(LifecycleError::WrongState { id, status: WorkspaceStatus::Destroying }));
                Phase::Destroying { replies: vec![reply] }
            }
            Ok(Ok(())) => {
                let update = WorkspaceUpdate {
                    last_used_at: Some(emergent_store::now()),
                    ..WorkspaceUpdate::to_status(WorkspaceStatus::Stopped)
                };
                self.presence.activity.note();
                self.record(update).await;
                tracing::info!(workspace = %id, "workspace {id} is stopped, {mode} kept");
                answer(replies, Ok(self.row()));
                Phase::Stopped
            }
            Ok(Err(error)) => {
                answer(replies, Err(error.clone()));
                self.fail("stop_failed", error.to_string()).await
            }
        }
    }
}
