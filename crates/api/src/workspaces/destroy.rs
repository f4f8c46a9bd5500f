//! `DELETE /api/v1/agent/workspaces/{id}`

use axum::Json;
use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::audit::{Operation, Summary};
use crate::errors::ErrorCode::{NotSupported, ProviderFailed};
use crate::errors::{ApiError, PRIVATE, QUERY, WORKSPACE, documented_errors};
use crate::extract::{Query, WorkspacePath, Workspaces};

/// How to destroy it.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// Whether to take a snapshot first. Not supported yet.
    snapshot: Option<bool>,
}

/// That a workspace is gone.
#[derive(Serialize, ToSchema)]
pub(crate) struct DestroyedWorkspace {
    /// Which.
    id: WorkspaceId,
    /// `destroyed`.
    #[schema(example = "destroyed")]
    status: &'static str,
}

documented_errors!(Errors: PRIVATE, QUERY, WORKSPACE, &[NotSupported, ProviderFailed]);

/// Destroys a workspace with everything that is in it.
///
/// What runs in it gets SIGTERM and up to 10 seconds. Afterwards the id answers 404.
#[utoipa::path(
    delete,
    path = "/api/v1/agent/workspaces/{id}",
    tag = "workspaces",
    operation_id = "destroy_workspace",
    params(("id" = WorkspaceId, Path, description = "The workspace."), Parameters),
    responses((status = 200, description = "It is gone.", body = DestroyedWorkspace), Errors)
)]
pub(crate) async fn destroy(
    Workspaces(workspaces): Workspaces,
    WorkspacePath(id): WorkspacePath,
    operation: Operation,
    Query(parameters): Query<Parameters>,
) -> Result<Json<DestroyedWorkspace>, ApiError> {
    if parameters.snapshot == Some(true) {
        return Err(ApiError::not_supported("snapshot", "snapshots are not supported yet"));
    }
    let record = operation.begin("destroy_workspace", Some(id), Summary::default());
    record.end(workspaces.destroy(id).await.map_err(ApiError::from))?;
    Ok(Json(DestroyedWorkspace { id, status: "destroyed" }))
}
