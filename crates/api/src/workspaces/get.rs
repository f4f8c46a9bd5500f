//! `GET /api/v1/agent/workspaces/{id}`

use axum::Json;
use emergent_types::WorkspaceId;

use super::view::Workspace;
use crate::errors::{ApiError, PRIVATE, WORKSPACE, documented_errors};
use crate::extract::{WorkspacePath, Workspaces};

documented_errors!(Errors: PRIVATE, WORKSPACE);

/// Tells a workspace's state.
#[utoipa::path(
    get,
    path = "/api/v1/agent/workspaces/{id}",
    tag = "workspaces",
    operation_id = "get_workspace",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    responses((status = 200, description = "The workspace.", body = Workspace), Errors)
)]
pub(crate) async fn get(
    Workspaces(workspaces): Workspaces,
    WorkspacePath(id): WorkspacePath,
) -> Result<Json<Workspace>, ApiError> {
    let row = workspaces.get(id).await?;
    Ok(Json(Workspace::from(row).making(workspaces.progress(id))))
}
