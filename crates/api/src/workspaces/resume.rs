//! `POST /api/v1/agent/workspaces/{id}/resume`

use axum::Json;
use emergent_types::WorkspaceId;
use serde::Deserialize;
use utoipa::ToSchema;

use super::view::Workspace;
use crate::audit::{Operation, Summary};
use crate::errors::ErrorCode::{LimitReached, ProviderFailed, WorkspaceNotReady};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, WORKSPACE, documented_errors};
use crate::extract::{OptionalJsonBody, WorkspacePath, Workspaces};

/// There is nothing to choose.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeWorkspace {}

documented_errors!(Errors: PRIVATE, JSON_BODY, WORKSPACE, &[WorkspaceNotReady, LimitReached, ProviderFailed]);

/// Starts a stopped workspace again, with its files as they were.
///
/// Does nothing where it is ready already.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/{id}/resume",
    tag = "workspaces",
    operation_id = "resume_workspace",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    request_body = Option<ResumeWorkspace>,
    responses((status = 200, description = "It is ready.", body = Workspace), Errors)
)]
pub(crate) async fn resume(
    Workspaces(workspaces): Workspaces,
    WorkspacePath(id): WorkspacePath,
    operation: Operation,
    OptionalJsonBody(ResumeWorkspace {}): OptionalJsonBody<ResumeWorkspace>,
) -> Result<Json<Workspace>, ApiError> {
    let record = operation.begin("resume_workspace", Some(id), Summary::default());
    let resumed = record.end(workspaces.resume(id).await.map_err(ApiError::from))?;
    Ok(Json(resumed.into()))
}
