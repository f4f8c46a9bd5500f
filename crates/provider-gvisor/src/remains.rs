//! What could not be removed because Docker had gone: it is removed when Docker is back. So are helpers that nobody has
//! come to start, because whoever made them was cut off. What a killed server leaves is found by the next one instead,
//! by its labels.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bollard::Docker;
use emergent_provider::{Operation, ProviderError};
use emergent_types::WorkspaceId;

use crate::containers;
use crate::engine::EngineError;
use crate::host::Host;
use crate::network::HELPER;

/// How old a helper is at least that nobody can be about to start any more.
const CUT_OFF: Duration = Duration::from_secs(300);

/// What is still to be removed.
#[derive(Default)]
pub(crate) struct Remains(Mutex<Left>);

#[derive(Default)]
struct Left {
    /// Sandboxes that nobody knows but this provider.
    trials: Vec<WorkspaceId>,
    /// Containers that have done something for it, by their names.
    containers: Vec<String>,
}

impl Remains {
    fn change<T>(&self, change: impl FnOnce(&mut Left) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Removes a container that has done what it was made for, now or when that works.
    pub(crate) async fn remove_scratch(&self, docker: &Docker, name: &str) -> Result<(), EngineError> {
        let removed = containers::remove(docker, name).await;
        if removed.is_err() {
            self.change(|left| left.containers.push(name.to_owned()));
        }
        removed
    }
}

impl Host {
    /// Removes a sandbox that was only tried.
    pub(crate) async fn remove_trial(&self, docker: &Docker, id: WorkspaceId) -> Result<(), ProviderError> {
        let removed = self.remove_everything(docker, Operation::Destroy, id).await;
        if removed.is_err() {
            self.remains.change(|left| left.trials.push(id));
        }
        removed
    }

    /// Removes a container that has done what it was made for.
    pub(crate) async fn remove_scratch(&self, docker: &Docker, name: &str) -> Result<(), EngineError> {
        self.remains.remove_scratch(docker, name).await
    }

    /// Removes what could not be removed before. What cannot be removed now either stays for the next time.
    pub(crate) async fn clear_away(&self, docker: &Docker) {
        let Left { trials, containers } = self.remains.change(std::mem::take);
        for id in trials {
            if let Err(error) = self.remove_trial(docker, id).await {
                tracing::warn!("what is left of a trial stays for now: {error}");
            }
        }
        for name in containers {
            if let Err(error) = self.remove_scratch(docker, &name).await {
                tracing::warn!(container = name, "container {name} stays for now: {error}");
            }
        }
        // Docker removes a helper when it ends, and one that is never started does not.
        if let Err(error) =
            containers::remove_forgotten(docker, &self.names.role_filter(HELPER), CUT_OFF).await
        {
            tracing::warn!("helpers that were never started stay for now: {error}");
        }
    }
}
