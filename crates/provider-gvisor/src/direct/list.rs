//! What exists of this installation. Looked for in every place where something can be left: folders, what
//! runsc knows, control groups, links.

use std::collections::BTreeMap;
use std::sync::Arc;

use emergent_provider::{ObservedSandbox, ObservedState, Operation, ProviderError};
use emergent_types::{NetworkMode, WorkspaceId};

use super::host::Host;
use super::runsc::{Known, Status};
use super::{control_group, processes};

impl Host {
    /// See [`WorkspaceProvider::list`](emergent_provider::WorkspaceProvider::list).
    pub(super) async fn list(&self) -> Result<Vec<ObservedSandbox>, ProviderError> {
        self.settle().await;
        let mut found = self.look_around().await?;
        if let Some(trial) = self.trial.under_way() {
            found.remove(&trial);
        }
        Ok(found.into_iter().map(|(id, state)| ObservedSandbox { id, state }).collect())
    }

    async fn look_around(&self) -> Result<BTreeMap<WorkspaceId, ObservedState>, ProviderError> {
        let unreadable = |reason: String| ProviderError::List { provider: self.kind(), reason };
        let ids = self.layout.ids().map_err(|error| unreadable(error.to_string()))?;
        let known = self.known().await.map_err(unreadable)?;
        let mut found = BTreeMap::new();
        for id in ids {
            let status = known.get(&id).map(|known| known.status);
            let state = match (self.record(id), status) {
                (Some(_), Some(Status::Running)) => ObservedState::Running,
                (Some(_), Some(Status::Paused)) => ObservedState::Suspended,
                (Some(_), Some(Status::Stopped) | None) => ObservedState::Stopped,
                _ => ObservedState::Partial,
            };
            // Removed since the folders were listed.
            if self.layout.sandbox(id).exists() {
                found.insert(id, state);
            }
        }
        let (installation, links) = (self.options.installation, Arc::clone(&self.internet.links));
        let elsewhere = tokio::task::spawn_blocking(move || {
            let linked = links.list().unwrap_or_default().into_iter().filter_map(|left| left.workspace);
            control_group::ids(installation).into_iter().chain(linked).collect::<Vec<_>>()
        });
        let elsewhere = elsewhere.await.map_err(|panic| unreadable(panic.to_string()))?;
        for id in elsewhere.into_iter().chain(known.into_keys()) {
            found.entry(id).or_insert(ObservedState::Partial);
        }
        Ok(found)
    }

    /// What runsc knows, by workspace. Where it is gone, nothing runs that it could know of.
    pub(super) async fn known(&self) -> Result<BTreeMap<WorkspaceId, Known>, String> {
        if !self.layout.runsc().exists() {
            return Ok(BTreeMap::new());
        }
        let known = self.runsc.list().await.map_err(|error| error.to_string())?;
        let of = |mut known: Known| {
            // A process that has ended counts as one for as long as nobody has asked after it.
            if !processes::belongs(known.pid, &self.runsc.root_flag(), &known.id) {
                known.status = Status::Stopped;
            }
            let id = known.id.get(known.id.len().checked_sub(36)?..)?.parse().ok()?;
            (self.names.container(id) == known.id).then_some((id, known))
        };
        Ok(known.into_iter().filter_map(of).collect())
    }

    /// What the sandbox of a workspace does.
    pub(super) async fn status(
        &self,
        operation: Operation,
        id: WorkspaceId,
    ) -> Result<Option<Status>, ProviderError> {
        let known =
            self.known().await.map_err(|reason| self.step(operation, id, "look for its sandbox", reason))?;
        Ok(known.get(&id).map(|known| known.status))
    }

    /// Once: takes over what earlier servers have started. Where that cannot be seen, the next one who asks looks
    /// again.
    pub(super) async fn settle(&self) {
        let settled = self.settled.get_or_try_init(|| async {
            let running = self.known().await?.into_iter().filter(|(id, known)| {
                matches!(known.status, Status::Running | Status::Paused)
                    && self.record(*id).is_some_and(|record| record.network == NetworkMode::Internet)
            });
            self.adopt_networks(running.map(|(id, known)| (id, known.pid)).collect()).await;
            Ok::<_, String>(())
        });
        if let Err(reason) = settled.await {
            tracing::warn!("what earlier servers have started cannot be seen: {reason}");
        }
    }
}
