//! A snapshot, as clients see it.

use emergent_store::SnapshotRow;
use emergent_types::{IsolationLevel, NetworkMode, ProviderKind, ResourceLimits, SnapshotId, WorkspaceId};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

/// A copy of a workspace's files.
#[derive(Serialize, ToSchema)]
pub(crate) struct Snapshot {
    /// Names it in every other call.
    id: SnapshotId,
    /// `creating`, `ready` or `deleting`.
    #[schema(example = "ready")]
    status: &'static str,
    /// What its owner calls it.
    #[schema(required = true)]
    name: Option<String>,
    /// Whose files it holds. That workspace may be gone.
    workspace_id: WorkspaceId,
    /// Who keeps it.
    provider: ProviderKind,
    /// The isolation its workspace had.
    isolation: IsolationLevel,
    /// What its workspace could reach.
    network: NetworkMode,
    /// What its workspace could use.
    resource_limits: ResourceLimits,
    /// The image its workspace had started from.
    #[schema(required = true)]
    base_image: Option<String>,
    /// When it was asked for.
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
}

impl From<SnapshotRow> for Snapshot {
    fn from(row: SnapshotRow) -> Self {
        Self {
            id: row.id,
            status: row.status.as_str(),
            name: row.name,
            workspace_id: row.workspace_id,
            provider: row.provider,
            isolation: row.isolation,
            network: row.network,
            resource_limits: row.resource_limits,
            base_image: row.base_image,
            created_at: row.created_at,
        }
    }
}
