//! How far a sandbox is that somebody waits for, where that takes long: an image that is pulled.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use emergent_provider::SandboxSpec;
use emergent_store::WorkspaceRow;
use tokio::task::JoinHandle;

use crate::events;
use crate::service::{Context, Presence};

/// How often it is looked at. Each new word is an event, and a pull has many.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What was last said.
#[derive(Default)]
pub(crate) struct Progress(Mutex<Option<String>>);

impl Progress {
    pub(crate) fn latest(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether this is new.
    pub(crate) fn set(&self, said: Option<String>) -> bool {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = *latest != said;
        *latest = said;
        is_new
    }
}

/// Somebody looks, until this is dropped.
pub(crate) struct Watching {
    task: JoinHandle<()>,
    presence: Arc<Presence>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
        self.presence.progress.set(None);
    }
}

/// Says how far the making of a sandbox is, to whoever asks for the workspace or follows events.
pub(crate) fn watch(
    context: &Arc<Context>,
    presence: &Arc<Presence>,
    row: WorkspaceRow,
    spec: SandboxSpec,
) -> Watching {
    let (context, shown) = (context.clone(), presence.clone());
    let looking = async move {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let providers = context.orchestrator.providers().iter();
            let said = providers.filter_map(|provider| provider.progress(&spec)).next();
            if shown.progress.set(said.clone())
                && let Some(said) = said
                && row.warm_pool.is_none()
            {
                context.events.publish(events::of_progress(&row, &said));
            }
        }
    };
    Watching { task: tokio::spawn(looking), presence: presence.clone() }
}
