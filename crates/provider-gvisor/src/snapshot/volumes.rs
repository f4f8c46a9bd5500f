//! Copies of volumes: volumes.
//!
//! Docker's volumes cannot be marked once they are made. So a snapshot is a volume for each of the
//! workspace's, and one with nothing in it that is made last, removed first, and carries the record.

use std::time::Duration;

use bollard::Docker;
use bollard::models::{Mount, VolumeCreateRequest};
use bollard::query_parameters::{ListVolumesOptionsBuilder, RemoveVolumeOptionsBuilder};
use emergent_provider::{Operation, ProviderError, SandboxSpec};
use emergent_types::{SnapshotId, WorkspaceId};

use super::{CopyError, Record};
use crate::containers::{self, Condition};
use crate::engine::{EngineError, MissingIsFine};
use crate::host::Host;
use crate::names;

/// How long a workspace may stand still.
const STILL_LIMIT: Duration = Duration::from_secs(120);

/// How long copying may take where nobody has to wait for it.
const COPY_LIMIT: Duration = Duration::from_secs(1800);

impl Host {
    pub(super) async fn copy_volumes(&self, docker: &Docker, record: &Record) -> Result<(), ProviderError> {
        let (id, workspace) = (record.snapshot.id, record.snapshot.workspace);
        let failed =
            |step| move |error: EngineError| self.docker_step(Operation::Snapshot, workspace, step)(error);
        let pairs = self.pairs(id, workspace);
        for (_, copy) in &pairs {
            let made = self.make_snapshot_volume(docker, copy, record, false).await;
            made.map_err(failed("volume"))?;
        }
        let name = self.names.container(workspace);
        let seen = containers::look(docker, &name).await.map_err(failed("look for its container"))?;
        let runs = seen.is_some_and(|seen| seen.condition == Condition::Running);
        if runs {
            docker
                .pause_container(&name)
                .await
                .map_err(EngineError::from)
                .map_err(failed("hold it still"))?;
        }
        let limit = if runs { STILL_LIMIT } else { COPY_LIMIT };
        let copied = self.copy_between(docker, &pairs, id, limit).await;
        if runs {
            let goes_on = docker.unpause_container(&name).await.map_err(EngineError::from);
            goes_on.map_err(failed("let it go on"))?;
        }
        copied.map_err(|error| self.copy_failed(Operation::Snapshot, workspace, error))?;
        let mark = self.names.snapshot_mark(id);
        self.make_snapshot_volume(docker, &mark, record, true).await.map_err(failed("record"))
    }

    /// The volumes of a new workspace, filled.
    pub(super) async fn restore_volumes(
        &self,
        docker: &Docker,
        record: &Record,
        spec: &SandboxSpec,
    ) -> Result<Vec<Mount>, ProviderError> {
        let mounts = self.make_volumes(docker, Operation::Restore, spec, &record.image).await?;
        let snapshot = record.snapshot.id;
        let pairs = self.pairs(snapshot, spec.id).map(|(workspace, copy)| (copy, workspace));
        let copied = self.copy_between(docker, &pairs, snapshot, COPY_LIMIT).await;
        copied.map_err(|error| self.copy_failed(Operation::Restore, spec.id, error))?;
        Ok(mounts)
    }

    /// The volumes of a workspace, each with its copy's.
    fn pairs(&self, snapshot: SnapshotId, workspace: WorkspaceId) -> [(String, String); 2] {
        [
            (self.names.workspace_volume(workspace), self.names.snapshot_volume(snapshot, "workspace")),
            (self.names.home_volume(workspace), self.names.snapshot_volume(snapshot, "home")),
        ]
    }

    async fn make_snapshot_volume(
        &self,
        docker: &Docker,
        name: &str,
        record: &Record,
        whole: bool,
    ) -> Result<(), EngineError> {
        let mut labels = self.names.own_labels();
        // The image is named by all of them, so that it is not taken for one that nobody needs.
        let of_copy = [names::SNAPSHOT, names::IMAGE];
        labels.extend(
            record.labels().into_iter().filter(|(name, _)| whole || of_copy.contains(&name.as_str())),
        );
        let volume = VolumeCreateRequest {
            name: Some(name.to_owned()),
            driver: Some("local".to_owned()),
            labels: Some(labels),
            ..VolumeCreateRequest::default()
        };
        docker.create_volume(volume).await?;
        Ok(())
    }

    /// A whole one.
    pub(super) async fn volume_snapshot(
        &self,
        docker: &Docker,
        id: SnapshotId,
    ) -> Result<Option<Record>, EngineError> {
        match docker.inspect_volume(&self.names.snapshot_mark(id)).await.map_err(EngineError::from) {
            Ok(volume) if self.names.is_own(&volume.labels) => Ok(Record::from_labels(&volume.labels)),
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All of them; those that are not whole have no record.
    pub(super) async fn volume_snapshots(
        &self,
        docker: &Docker,
    ) -> Result<Vec<(SnapshotId, Option<Record>)>, EngineError> {
        let mut filter = self.names.filter(None);
        filter.entry("label".to_owned()).or_default().push(names::SNAPSHOT.to_owned());
        let options = ListVolumesOptionsBuilder::new().filters(&filter).build();
        let mut found = std::collections::BTreeMap::new();
        for volume in docker.list_volumes(Some(options)).await?.volumes.unwrap_or_default() {
            let id = volume.labels.get(names::SNAPSHOT).and_then(|id| id.parse::<SnapshotId>().ok());
            let Some(id) = id else { continue };
            let record = found.entry(id).or_insert(None);
            if volume.name == self.names.snapshot_mark(id) {
                *record = Record::from_labels(&volume.labels);
            }
        }
        Ok(found.into_iter().collect())
    }

    /// First the record, and whoever may still be copying.
    pub(super) async fn remove_volume_snapshot(
        &self,
        docker: &Docker,
        id: SnapshotId,
    ) -> Result<(), EngineError> {
        let force = RemoveVolumeOptionsBuilder::new().force(true).build();
        docker.remove_volume(&self.names.snapshot_mark(id), Some(force.clone())).await.missing_is_fine()?;
        let filter = self.names.snapshot_filter(id);
        containers::remove_all(docker, &filter).await?;
        let options = ListVolumesOptionsBuilder::new().filters(&filter).build();
        for volume in docker.list_volumes(Some(options)).await?.volumes.unwrap_or_default() {
            docker.remove_volume(&volume.name, Some(force.clone())).await.missing_is_fine()?;
        }
        Ok(())
    }
}

impl From<EngineError> for CopyError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}
