//! `POST /api/v1/agent/workspaces/{id}/stop`

use axum::Json;
use emergent_types::{StopMode, WorkspaceId};
use serde::Deserialize;
use utoipa::ToSchema;

use super::view::Workspace;
use crate::audit::{Operation, Summary};
use crate::errors::ErrorCode::{NotSupported, ProviderFailed, WorkspaceNotReady};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, WORKSPACE, documented_errors};
use crate::extract::{OptionalJsonBody, WorkspacePath, Workspaces};

/// How to stop it.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopWorkspace {
    /// What to keep; `disk` where not said.
    mode: Option<StopMode>,
}

documented_errors!(Errors: PRIVATE, JSON_BODY, WORKSPACE, &[NotSupported, WorkspaceNotReady, ProviderFailed]);

/// Stops a workspace: what runs in it ends, its files stay. With `mode` `memory`, where its
/// provider can (`suspend` among its capabilities), what runs stands still instead and goes on
/// after a resume.
///
/// Does nothing where it is stopped already. A stopped workspace does not count against the
/// limit of concurrent workspaces.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/{id}/stop",
    tag = "workspaces",
    operation_id = "stop_workspace",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    request_body = Option<StopWorkspace>,
    responses((status = 200, description = "It is stopped.", body = Workspace), Errors)
)]
pub(crate) async fn stop(
    Workspaces(workspaces): Workspaces,
    WorkspacePath(id): WorkspacePath,
    operation: Operation,
    OptionalJsonBody(request): OptionalJsonBody<StopWorkspace>,
) -> Result<Json<Workspace>, ApiError> {
    let mode = request.mode.unwrap_or(StopMode::Disk);
    if mode == StopMode::Memory && !workspaces.can_suspend(id).await? {
        let reason = "its provider cannot keep what runs; \"disk\" keeps the files";
        return Err(ApiError::not_supported("mode", reason));
    }
    let record = operation.begin("stop_workspace", Some(id), Summary::default());
    let stopped = record.end(workspaces.stop(id, mode).await.map_err(ApiError::from))?;
    Ok(Json(stopped.into()))
}
