//! `POST /api/v1/agent/workspaces/{id}/stop`

use axum::Json;
use emergent_types::WorkspaceId;
use serde::Deserialize;
use utoipa::ToSchema;

use super::view::Workspace;
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

/// What a stop keeps.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum StopMode {
    /// The files.
    Disk,
    /// The files and what runs. Not supported yet.
    Memory,
}

documented_errors!(Errors: PRIVATE, JSON_BODY, WORKSPACE, &[NotSupported, WorkspaceNotReady, ProviderFailed]);

/// Stops a workspace: what runs in it ends, its files stay.
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
    OptionalJsonBody(request): OptionalJsonBody<StopWorkspace>,
) -> Result<Json<Workspace>, ApiError> {
    match request.mode.unwrap_or(StopMode::Disk) {
        StopMode::Disk => Ok(Json(workspaces.stop(id).await?.into())),
        StopMode::Memory => Err(ApiError::not_supported(
            "mode",
            "keeping what runs is not supported yet; \"disk\" keeps the files",
        )),
    }
}
