//! Names and labels of what this provider makes with Docker. Ids only: nothing that a user wrote
//! becomes a name, a label or an annotation.

use std::collections::HashMap;

use emergent_provider::VolumeName;
use emergent_types::{InstallationId, ProviderKind, SnapshotId, WorkspaceId};

/// Whose a container or volume is.
pub(crate) const INSTALLATION: &str = "emergent.installation";
/// For which workspace.
pub(crate) const WORKSPACE: &str = "emergent.workspace";
/// Of which provider: two of them may use one Docker.
pub(crate) const PROVIDER: &str = "emergent.provider";
/// What something is for that is no workspace's.
pub(crate) const ROLE: &str = "emergent.role";
/// The image a workspace was made from, by its content's hash.
pub(crate) const IMAGE: &str = "emergent.image";
/// How its disk is limited.
pub(crate) const DISK: &str = "emergent.disk";
/// How large it is.
pub(crate) const DISK_BYTES: &str = "emergent.disk-bytes";
/// Which volume of the installation's it is.
pub(crate) const VOLUME: &str = "emergent.volume";
/// Of which snapshot something is.
pub(crate) const SNAPSHOT: &str = "emergent.snapshot";
/// Of which workspace's disk a snapshot is. Not the label of what is that workspace's: it outlives it.
pub(crate) const SNAPSHOT_OF: &str = "emergent.snapshot-of";
/// Which level that workspace had.
pub(crate) const ISOLATION: &str = "emergent.isolation";
/// What it could reach.
pub(crate) const NETWORK: &str = "emergent.network";

/// Names of one provider of one installation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names {
    pub(crate) installation: InstallationId,
    pub(crate) provider: ProviderKind,
}

impl Names {
    /// The container of a workspace.
    pub(crate) fn container(&self, id: WorkspaceId) -> String {
        format!("emergent-{}-{id}", self.installation.short())
    }

    /// A container that is never started, for what Docker only does with containers.
    pub(crate) fn scratch_container(&self, what: &str) -> String {
        format!("emergent-{}-{what}-{}", self.installation.short(), WorkspaceId::generate())
    }

    /// The volume of a workspace's files.
    pub(crate) fn workspace_volume(&self, id: WorkspaceId) -> String {
        format!("agent-workspace-{id}")
    }

    /// The volume of a workspace's home folders, where they are not on the same disk.
    pub(crate) fn home_volume(&self, id: WorkspaceId) -> String {
        format!("agent-home-{id}")
    }

    /// A volume of the installation's.
    pub(crate) fn named_volume(&self, volume: &VolumeName) -> String {
        format!("emergent-volume-{}-{}-{volume}", self.installation.short(), self.provider)
    }

    /// The volume that says that a snapshot is whole.
    pub(crate) fn snapshot_mark(&self, id: SnapshotId) -> String {
        format!("agent-snapshot-{id}")
    }

    /// A volume with a part of a snapshot.
    pub(crate) fn snapshot_volume(&self, id: SnapshotId, part: &str) -> String {
        format!("agent-snapshot-{id}-{part}")
    }

    /// The volume that holds an agent's program, by the program's hash.
    pub(crate) fn agent_volume(&self, hash: &str) -> String {
        format!("emergent-agent-{}-{}", self.installation.short(), hash.get(..16).unwrap_or(hash))
    }

    /// What everything of this provider carries.
    pub(crate) fn own_labels(&self) -> HashMap<String, String> {
        [(INSTALLATION, self.installation.to_string()), (PROVIDER, self.provider.to_string())]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    }

    /// Whether something carries what everything of this provider carries.
    pub(crate) fn is_own(&self, labels: &HashMap<String, String>) -> bool {
        self.own_labels().iter().all(|(name, value)| labels.get(name) == Some(value))
    }

    /// What everything of one workspace carries.
    pub(crate) fn labels(&self, id: WorkspaceId) -> HashMap<String, String> {
        let mut labels = self.own_labels();
        labels.insert(WORKSPACE.to_owned(), id.to_string());
        labels
    }

    /// Finds what is for one thing and no workspace's.
    pub(crate) fn role_filter(&self, role: &str) -> HashMap<String, Vec<String>> {
        let mut filter = self.filter(None);
        filter.entry("label".to_owned()).or_default().push(format!("{ROLE}={role}"));
        filter
    }

    /// Finds what is of one snapshot.
    pub(crate) fn snapshot_filter(&self, id: SnapshotId) -> HashMap<String, Vec<String>> {
        let mut filter = self.filter(None);
        filter.entry("label".to_owned()).or_default().push(format!("{SNAPSHOT}={id}"));
        filter
    }

    /// Finds what is this provider's; with an id, what is that workspace's.
    pub(crate) fn filter(&self, id: Option<WorkspaceId>) -> HashMap<String, Vec<String>> {
        let labels = match id {
            Some(id) => self.labels(id),
            None => self.own_labels(),
        };
        let wanted = labels.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        HashMap::from([("label".to_owned(), wanted)])
    }
}
