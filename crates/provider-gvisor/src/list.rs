//! What exists of this installation.

use std::collections::BTreeMap;

use bollard::query_parameters::ListVolumesOptionsBuilder;
use emergent_provider::{ObservedSandbox, ObservedState, ProviderError};
use emergent_types::WorkspaceId;

use crate::containers::{self, Condition};
use crate::engine::EngineError;
use crate::host::Host;
use crate::names;

impl Host {
    /// See [`WorkspaceProvider::list`](emergent_provider::WorkspaceProvider::list).
    pub(crate) async fn list(&self) -> Result<Vec<ObservedSandbox>, ProviderError> {
        let found = self.look_around().await;
        let found = found
            .map_err(|error| ProviderError::List { provider: self.kind(), reason: error.to_string() })?;
        Ok(found.into_iter().map(|(id, state)| ObservedSandbox { id, state }).collect())
    }

    async fn look_around(&self) -> Result<BTreeMap<WorkspaceId, ObservedState>, EngineError> {
        let docker = self.engine.docker().await?;
        let filter = self.names.filter(None);
        let id_of = |labels: &std::collections::HashMap<String, String>| {
            labels.get(names::WORKSPACE).and_then(|id| id.parse::<WorkspaceId>().ok())
        };
        // What has a folder and nothing else is the remains of a create or a destroy.
        let mut found = BTreeMap::new();
        for id in self.layered_disks().await.map_err(|err| bollard::errors::Error::IOError { err })? {
            found.insert(id, ObservedState::Partial);
        }
        let options = ListVolumesOptionsBuilder::new().filters(&filter).build();
        for volume in docker.list_volumes(Some(options)).await?.volumes.unwrap_or_default() {
            if let Some(id) = id_of(&volume.labels) {
                found.insert(id, ObservedState::Stopped);
            }
        }
        for container in containers::list(&docker, &filter).await? {
            let Some(id) = id_of(&container.labels) else { continue };
            let state = match (container.condition, found.contains_key(&id)) {
                (Condition::Running, true) => ObservedState::Running,
                (Condition::Paused, true) => ObservedState::Suspended,
                (Condition::Ended { .. }, true) => ObservedState::Stopped,
                _ => ObservedState::Partial,
            };
            found.insert(id, state);
        }
        if let Some(trial) = self.trial.under_way() {
            found.remove(&trial);
        }
        Ok(found)
    }
}
