//! `DELETE /api/v1/agent/snapshots/{snapshot_id}`

use axum::Json;
use emergent_types::SnapshotId;
use serde::Serialize;
use utoipa::ToSchema;

use crate::audit::{Operation, Summary};
use crate::auth::Caller;
use crate::errors::ErrorCode::{FeatureDisabled, ProviderFailed, SnapshotNotFound};
use crate::errors::{ApiError, PRIVATE, documented_errors};
use crate::extract::{SnapshotPath, Workspaces};

/// That a snapshot is gone.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeletedSnapshot {
    /// Which.
    id: SnapshotId,
    /// `deleted`.
    #[schema(example = "deleted")]
    status: &'static str,
}

documented_errors!(Errors: PRIVATE, &[FeatureDisabled, SnapshotNotFound, ProviderFailed]);

/// Removes a snapshot. Workspaces that were made from it are not touched.
#[utoipa::path(
    delete,
    path = "/api/v1/agent/snapshots/{snapshot_id}",
    tag = "snapshots",
    operation_id = "delete_snapshot",
    params(("snapshot_id" = SnapshotId, Path, description = "The snapshot.")),
    responses((status = 200, description = "It is gone.", body = DeletedSnapshot), Errors)
)]
pub(crate) async fn delete(
    Workspaces(workspaces): Workspaces,
    caller: Caller,
    operation: Operation,
    SnapshotPath(id): SnapshotPath,
) -> Result<Json<DeletedSnapshot>, ApiError> {
    let snapshot = super::visible(&workspaces, &caller, id).await?;
    let summary = Summary::default().text("snapshot_id", &id.to_string());
    let record = operation.begin("delete_snapshot", Some(snapshot.workspace_id), summary);
    record.end(workspaces.delete_snapshot(id).await.map_err(ApiError::from))?;
    Ok(Json(DeletedSnapshot { id, status: "deleted" }))
}
