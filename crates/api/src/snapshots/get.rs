//! `GET /api/v1/agent/snapshots/{snapshot_id}`

use axum::Json;
use emergent_types::SnapshotId;

use super::view::Snapshot;
use crate::auth::Caller;
use crate::errors::ErrorCode::{FeatureDisabled, SnapshotNotFound};
use crate::errors::{ApiError, PRIVATE, documented_errors};
use crate::extract::{SnapshotPath, Workspaces};

documented_errors!(Errors: PRIVATE, &[FeatureDisabled, SnapshotNotFound]);

/// Tells about a snapshot.
#[utoipa::path(
    get,
    path = "/api/v1/agent/snapshots/{snapshot_id}",
    tag = "snapshots",
    operation_id = "get_snapshot",
    params(("snapshot_id" = SnapshotId, Path, description = "The snapshot.")),
    responses((status = 200, description = "The snapshot.", body = Snapshot), Errors)
)]
pub(crate) async fn get(
    Workspaces(workspaces): Workspaces,
    caller: Caller,
    SnapshotPath(id): SnapshotPath,
) -> Result<Json<Snapshot>, ApiError> {
    Ok(Json(super::visible(&workspaces, &caller, id).await?.into()))
}
