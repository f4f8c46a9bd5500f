//! `POST /api/v1/agent/workspaces/{id}/snapshot`

use axum::Json;
use axum::http::StatusCode;
use emergent_types::WorkspaceId;
use serde::Deserialize;
use utoipa::ToSchema;

use super::text;
use crate::audit::{Operation, Summary};
use crate::auth::Caller;
use crate::errors::ErrorCode::{LimitReached, NotSupported, ProviderFailed, WorkspaceNotReady};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, WORKSPACE, documented_errors};
use crate::extract::{OptionalJsonBody, WorkspacePath, Workspaces};
use crate::snapshots::view::Snapshot;

/// The longest name of a snapshot.
const MAX_NAME_BYTES: usize = 256;

/// How to copy it.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TakeSnapshot {
    /// What you want to call it; 256 bytes at most.
    name: Option<String>,
}

documented_errors!(Errors: PRIVATE, JSON_BODY, WORKSPACE, &[
    NotSupported, WorkspaceNotReady, LimitReached, ProviderFailed,
]);

/// Copies the files of a workspace as they are at one moment, running or stopped, where its provider can
/// (`snapshots` among its capabilities). What runs goes on; its writes may wait a moment.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/{id}/snapshot",
    tag = "snapshots",
    operation_id = "snapshot_workspace",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    request_body = Option<TakeSnapshot>,
    responses((status = 201, description = "The snapshot.", body = Snapshot), Errors)
)]
pub(crate) async fn snapshot(
    Workspaces(workspaces): Workspaces,
    WorkspacePath(id): WorkspacePath,
    caller: Caller,
    operation: Operation,
    OptionalJsonBody(request): OptionalJsonBody<TakeSnapshot>,
) -> Result<(StatusCode, Json<Snapshot>), ApiError> {
    let name = request.name.map(|name| text::checked("name", name, MAX_NAME_BYTES)).transpose()?;
    let record = operation.begin("snapshot_workspace", Some(id), Summary::default());
    let taken = workspaces.snapshot(id, name, Some(caller.id())).await.map_err(ApiError::from);
    Ok((StatusCode::CREATED, Json(record.end(taken)?.into())))
}
