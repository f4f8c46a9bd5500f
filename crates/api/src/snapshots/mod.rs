//! Copies of workspaces' files.

pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod view;

use emergent_store::SnapshotRow;
use emergent_types::SnapshotId;
use emergent_workspaces::Handle;

use crate::auth::Caller;
use crate::errors::ApiError;

/// A snapshot that the caller may know of. For everybody else it does not exist.
pub(crate) async fn visible(
    workspaces: &Handle,
    caller: &Caller,
    id: SnapshotId,
) -> Result<SnapshotRow, ApiError> {
    let row = workspaces.get_snapshot(id).await?;
    match caller.owner_filter() {
        Some(owner) if row.owner_id != Some(owner) => Err(ApiError::snapshot_not_found(id)),
        _ => Ok(row),
    }
}
