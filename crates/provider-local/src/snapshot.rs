//! Copies of sandboxes' disks, and sandboxes made from them. Of disks that are files; a disk that is a
//! folder cannot be held still.
//!
//! ```text
//!  snapshot:  disk held still ─► copied ─► goes on ─► record, last: from here on it is whole
//!  restore:   record ─► may it be so? ─► disk copied ─► sandbox, as for any other
//!  deletion:  record, first: from here on it is not whole ─► the copy
//! ```
//!
//! The disk is mounted in the sandbox's own namespace, and is held still without going there
//! ([`HiddenDisk`]). No process of the sandbox is stopped; what writes waits. A server that is killed
//! meanwhile leaves a disk on which nothing can be written; the next one lets it go on before anything else.

use std::io;
use std::path::Path;

use emergent_host_disk::{DiskError, Geometry, HiddenDisk, copy_sparse, grow};
use emergent_provider::{ObservedSnapshot, Operation, ProviderError, Sandbox, SandboxSpec, Snapshot};
use emergent_types::{ByteSize, IsolationLevel, NetworkMode, SnapshotId, WorkspaceId};
use serde::{Deserialize, Serialize};

use crate::enforceable;
use crate::launch::DiskContent;
use crate::layout::DISK_IMAGE;
use crate::means::DiskKind;
use crate::prepared::Prepared;
use crate::provider::{Host, KIND, sandbox};
use crate::state::Observed;

/// What is kept with a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    snapshot: SnapshotId,
    workspace: WorkspaceId,
    isolation: IsolationLevel,
    network: NetworkMode,
    disk: ByteSize,
}

impl Record {
    fn of(snapshot: &Snapshot) -> Self {
        let Snapshot { id, workspace, isolation, network, disk } = snapshot.clone();
        Self { snapshot: id, workspace, isolation, network, disk }
    }

    /// `None` where it makes no sense, or is another's: then there is no whole one.
    fn read(id: SnapshotId, content: &[u8]) -> Option<Snapshot> {
        let Self { snapshot, workspace, isolation, network, disk } = serde_json::from_slice(content).ok()?;
        (snapshot == id).then_some(Snapshot { id, workspace, isolation, network, disk })
    }
}

impl Host {
    pub(crate) fn snapshot(&self, id: SnapshotId, spec: &SandboxSpec) -> Result<Snapshot, ProviderError> {
        // What an earlier server may have left of one.
        self.prepared()?;
        if let Some(snapshot) = self.find_snapshot(id)? {
            return Ok(snapshot);
        }
        self.delete_snapshot(id)?;
        let taken = self.take_snapshot(id, spec);
        match &taken {
            Ok(_) => {
                tracing::info!(snapshot = %id, workspace = %spec.id,
                    "took snapshot {id} of workspace {}", spec.id);
            }
            Err(_) => {
                if let Err(left) = self.delete_snapshot(id) {
                    tracing::warn!(snapshot = %id, "a failed snapshot has left something: {left}");
                }
            }
        }
        taken
    }

    fn take_snapshot(&self, id: SnapshotId, spec: &SandboxSpec) -> Result<Snapshot, ProviderError> {
        let workspace = spec.id;
        let record = match self.observe(workspace) {
            Observed::Running(record, ..) | Observed::Stopped(record) => record,
            Observed::Partial | Observed::Absent => {
                return Err(ProviderError::NotFound { provider: KIND, id: workspace });
            }
        };
        if record.disk != DiskKind::Image {
            return Err(ProviderError::unsupported(KIND, Operation::Snapshot, workspace));
        }
        let failed = |step| move |error: io::Error| disk_step(Operation::Snapshot, workspace, step, error);
        let image = self.layout.sandbox(workspace).join(DISK_IMAGE);
        let size = image.metadata().map_err(failed("disk"))?.len();
        let snapshot = Snapshot {
            id,
            workspace,
            isolation: IsolationLevel::Container,
            network: spec.network,
            disk: ByteSize::from_bytes(size),
        };
        let content = serde_json::to_vec(&Record::of(&snapshot)).map_err(io::Error::from);
        let content = content.map_err(failed("record"))?;
        let kept = self
            .layout
            .snapshots()
            .keep(&id.to_string(), &content, |to| HiddenDisk::new(&image).snapshot(to));
        kept.map_err(|error| match error {
            DiskError::TooSlow { limit, .. } => ProviderError::TimedOut {
                provider: KIND,
                operation: Operation::Snapshot,
                id: workspace,
                limit,
            },
            error if error.is_out_of_space() => exhausted(workspace),
            error => crate::provider::step_error(Operation::Snapshot, workspace, "copy the disk", error),
        })?;
        Ok(snapshot)
    }

    pub(crate) fn restore(&self, id: SnapshotId, spec: &SandboxSpec) -> Result<Sandbox, ProviderError> {
        let prepared = self.prepared()?;
        match self.observe(spec.id) {
            Observed::Running(..) => return Ok(sandbox(&self.layout, spec.id, &prepared.means)),
            // Its agent has died since; its disk is not ours to throw away.
            Observed::Stopped(record) => {
                self.relaunch(&prepared, Operation::Restore, spec, record)?;
                return Ok(sandbox(&self.layout, spec.id, &prepared.means));
            }
            Observed::Partial | Observed::Absent => {}
        }
        let snapshot = self.find_snapshot(id)?;
        let snapshot = snapshot.ok_or(ProviderError::SnapshotNotFound { provider: KIND, snapshot: id })?;
        snapshot.check_restore(KIND, IsolationLevel::Container, spec)?;
        enforceable::check_limits(&prepared.means, spec.named, DiskKind::Image)?;
        if prepared.means.disk != DiskKind::Image {
            return Err(ProviderError::Unavailable { provider: KIND, reason: prepared.means.why_folder() });
        }
        // Remains of an earlier attempt.
        self.remove(&prepared, Operation::Restore, spec.id)?;
        if let Err(error) = self.make_from(&prepared, id, spec) {
            if let Err(remains) = self.remove(&prepared, Operation::Restore, spec.id) {
                let id = spec.id;
                tracing::warn!(workspace = %id, "a failed restore of {id} has left something: {remains}");
            }
            return Err(error);
        }
        Ok(sandbox(&self.layout, spec.id, &prepared.means))
    }

    fn make_from(
        &self,
        prepared: &Prepared,
        id: SnapshotId,
        spec: &SandboxSpec,
    ) -> Result<(), ProviderError> {
        let source = self.layout.snapshots().disk(&id.to_string());
        let bytes = Geometry::for_size(spec.limits.disk.bytes()).bytes();
        let copy = |folder: &Path| {
            let image = folder.join(DISK_IMAGE);
            let made = copy_sparse(&source, &image).and_then(|()| grow(&image, bytes));
            made.map_err(|error| disk_step(Operation::Restore, spec.id, "copy the disk", error))
        };
        let disk = (DiskKind::Image, DiskContent::Copied);
        self.make_around(prepared, Operation::Restore, spec, disk, &copy)
    }

    /// Removes whatever there is of a snapshot; nothing at all is success.
    pub(crate) fn delete_snapshot(&self, id: SnapshotId) -> Result<(), ProviderError> {
        let removed = self.layout.snapshots().remove(&id.to_string());
        removed.map_err(|error| step_error(id, "files", error))
    }

    pub(crate) fn list_snapshots(&self) -> Result<Vec<ObservedSnapshot>, ProviderError> {
        let names = self.layout.snapshots().names().map_err(unreadable)?;
        let ids = names.into_iter().filter_map(|name| name.parse().ok());
        ids.map(|id| {
            let whole = self.find_snapshot(id)?.map(ObservedSnapshot::Whole);
            Ok(whole.unwrap_or(ObservedSnapshot::Partial(id)))
        })
        .collect()
    }

    /// A whole one.
    fn find_snapshot(&self, id: SnapshotId) -> Result<Option<Snapshot>, ProviderError> {
        let content = self.layout.snapshots().record(&id.to_string()).map_err(unreadable)?;
        Ok(content.and_then(|content| Record::read(id, &content)))
    }

    /// Lets a disk go on of which a server that was killed was taking a copy.
    pub(crate) fn thaw(&self, id: WorkspaceId) {
        let image = self.layout.sandbox(id).join(DISK_IMAGE);
        if image.exists()
            && let Err(error) = HiddenDisk::new(&image).thaw()
        {
            tracing::warn!(workspace = %id, "the disk of {id} may stand still: {error}");
        }
    }
}

fn unreadable(error: io::Error) -> ProviderError {
    ProviderError::List { provider: KIND, reason: error.to_string() }
}

fn exhausted(id: WorkspaceId) -> ProviderError {
    ProviderError::Exhausted { provider: KIND, resource: "disk", id }
}

fn disk_step(operation: Operation, id: WorkspaceId, step: &'static str, error: io::Error) -> ProviderError {
    match error.kind() {
        io::ErrorKind::StorageFull => exhausted(id),
        _ => crate::provider::step_error(operation, id, step, error),
    }
}

/// A step of a deletion that failed.
pub(crate) fn step_error(
    snapshot: SnapshotId,
    step: &'static str,
    reason: impl std::fmt::Display,
) -> ProviderError {
    let (operation, reason) = (Operation::DeleteSnapshot, reason.to_string());
    ProviderError::SnapshotStep { provider: KIND, operation, snapshot, step, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_nothing_less_is_one() {
        let snapshot = Snapshot {
            id: SnapshotId::generate(),
            workspace: WorkspaceId::generate(),
            isolation: IsolationLevel::Container,
            network: NetworkMode::Internet,
            disk: ByteSize::from_mib(64),
        };
        let content = serde_json::to_vec(&Record::of(&snapshot)).unwrap();
        assert_eq!(Record::read(snapshot.id, &content), Some(snapshot.clone()));
        assert_eq!(Record::read(SnapshotId::generate(), &content), None);
        assert_eq!(Record::read(snapshot.id, &content[..content.len() - 1]), None);
    }
}
