//! What is kept with a copy of a disk. One form for both kinds: labels of a volume, or the same in a file.

use std::collections::HashMap;

use emergent_provider::Snapshot;
use emergent_types::{ByteSize, SnapshotId};

use crate::disk::DiskKind;
use crate::names;

/// What is known of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) snapshot: Snapshot,
    /// The image that the disk belongs over, by its content's hash.
    pub(crate) image: String,
    pub(crate) disk: DiskKind,
}

impl Record {
    pub(crate) fn labels(&self) -> HashMap<String, String> {
        let Snapshot { id, workspace, isolation, network, disk } = &self.snapshot;
        [
            (names::SNAPSHOT, id.to_string()),
            (names::SNAPSHOT_OF, workspace.to_string()),
            (names::ISOLATION, isolation.to_string()),
            (names::NETWORK, network.to_string()),
            (names::DISK_BYTES, disk.bytes().to_string()),
            (names::DISK, self.disk.label().to_owned()),
            (names::IMAGE, self.image.clone()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// `None` where anything is missing: then it is no whole one.
    pub(super) fn from_labels(labels: &HashMap<String, String>) -> Option<Self> {
        let label = |name: &str| labels.get(name);
        Some(Self {
            snapshot: Snapshot {
                id: label(names::SNAPSHOT)?.parse().ok()?,
                workspace: label(names::SNAPSHOT_OF)?.parse().ok()?,
                isolation: label(names::ISOLATION)?.parse().ok()?,
                network: label(names::NETWORK)?.parse().ok()?,
                disk: ByteSize::from_bytes(label(names::DISK_BYTES)?.parse().ok()?),
            },
            image: label(names::IMAGE)?.clone(),
            disk: DiskKind::named(label(names::DISK)?)?,
        })
    }

    /// The same from a file, which must be of the snapshot whose name it has.
    pub(super) fn from_file(id: SnapshotId, content: &[u8]) -> Option<Self> {
        let labels = serde_json::from_slice(content).ok()?;
        Self::from_labels(&labels).filter(|record| record.snapshot.id == id)
    }
}

#[cfg(test)]
mod tests {
    use emergent_types::{IsolationLevel, NetworkMode, WorkspaceId};

    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_nothing_less_is_one() {
        let record = Record {
            snapshot: Snapshot {
                id: SnapshotId::generate(),
                workspace: WorkspaceId::generate(),
                isolation: IsolationLevel::Gvisor,
                network: NetworkMode::Internet,
                disk: ByteSize::from_mib(64),
            },
            image: format!("sha256:{}", "0a".repeat(32)),
            disk: DiskKind::Layered,
        };
        let labels = record.labels();
        assert_eq!(Record::from_labels(&labels), Some(record.clone()));
        for name in labels.keys() {
            let mut less = labels.clone();
            less.remove(name);
            assert_eq!(Record::from_labels(&less), None, "without {name}");
        }
        let file = serde_json::to_vec(&labels).unwrap();
        assert_eq!(Record::from_file(record.snapshot.id, &file), Some(record));
        assert_eq!(Record::from_file(SnapshotId::generate(), &file), None);
        assert_eq!(Record::from_file(SnapshotId::generate(), b"{"), None);
    }
}
