//! A copy of a workspace's disk, as it is kept.

use std::fmt;
use std::str::FromStr;

use emergent_types::{IsolationLevel, NetworkMode, ProviderKind, ResourceLimits, SnapshotId, WorkspaceId};
use time::OffsetDateTime;

use crate::{Cursor, Page, Repository, TokenId};

/// A copy of a workspace's disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRow {
    /// Names it, here and on every host.
    pub id: SnapshotId,
    /// Whose disk it was. That workspace may be gone.
    pub workspace_id: WorkspaceId,
    /// Who keeps the copy.
    pub provider: ProviderKind,
    /// Whether it is there.
    pub status: SnapshotStatus,
    /// What its owner calls it.
    pub name: Option<String>,
    /// The isolation that workspace had.
    pub isolation: IsolationLevel,
    /// What it could reach.
    pub network: NetworkMode,
    /// What it could use.
    pub resource_limits: ResourceLimits,
    /// The image it had started from.
    pub base_image: Option<String>,
    /// The repository that was checked out in it.
    pub repository_url: Option<String>,
    /// The branch that was checked out in it.
    pub branch: Option<String>,
    /// The repositories it had.
    pub repositories: Vec<Repository>,
    /// The token it belongs to; `None` where the installation itself made it.
    pub owner_id: Option<TokenId>,
    /// When it was asked for.
    pub created_at: OffsetDateTime,
}

/// Whether a copy is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SnapshotStatus {
    /// It is being made.
    Creating,
    /// It is whole.
    Ready,
    /// It is being removed.
    Deleting,
}

impl SnapshotStatus {
    const ALL: [Self; 3] = [Self::Creating, Self::Ready, Self::Deleting];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Ready => "ready",
            Self::Deleting => "deleting",
        }
    }
}

impl fmt::Display for SnapshotStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no status of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a status of a snapshot")]
pub struct UnknownSnapshotStatus(String);

impl FromStr for SnapshotStatus {
    type Err = UnknownSnapshotStatus;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or_else(|| UnknownSnapshotStatus(text.to_owned()))
    }
}

/// Which snapshots to list. What is `None` does not matter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SnapshotFilter {
    /// Belonging to this token.
    pub owner: Option<TokenId>,
    /// Of this workspace.
    pub workspace: Option<WorkspaceId>,
}

/// Where a page of snapshots ended.
pub type SnapshotCursor = Cursor<SnapshotId>;
/// One page of snapshots.
pub type SnapshotPage = Page<SnapshotRow, SnapshotCursor>;
