//! `POST /api/v1/agent/workspaces/{id}/snapshot`

use axum::http::StatusCode;
use axum::response::Response;
use emergent_store::IdempotencyKey;
use emergent_types::WorkspaceId;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{create, text};
use crate::audit::{Operation, Summary};
use crate::auth::Caller;
use crate::errors::ErrorCode::{
    IdempotencyConflict, LimitReached, NotSupported, ProviderFailed, WorkspaceNotReady,
};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, WORKSPACE, documented_errors};
use crate::extract::{IdempotencyHeader, OptionalFingerprintedBody, WorkspacePath, Workspaces};
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
    NotSupported, WorkspaceNotReady, IdempotencyConflict, LimitReached, ProviderFailed,
]);

/// Copies the files of a workspace as they are at one moment, running or stopped, where its provider can
/// (`snapshots` among its capabilities). What runs goes on; its writes may wait a moment.
///
/// Sent again with the same `Idempotency-Key`, it takes no second one: the answer is the first one, with the header
/// `Idempotency-Replayed`.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/{id}/snapshot",
    tag = "snapshots",
    operation_id = "snapshot_workspace",
    params(
        ("id" = WorkspaceId, Path, description = "The workspace."),
        ("Idempotency-Key" = Option<String>, Header, description = "Up to 255 characters that name this snapshot."),
    ),
    request_body = Option<TakeSnapshot>,
    responses((status = 201, description = "The snapshot.", body = Snapshot), Errors)
)]
pub(crate) async fn snapshot(
    Workspaces(workspaces): Workspaces,
    WorkspacePath(id): WorkspacePath,
    caller: Caller,
    operation: Operation,
    IdempotencyHeader(key): IdempotencyHeader,
    body: OptionalFingerprintedBody<TakeSnapshot>,
) -> Result<Response, ApiError> {
    let name = body.value.name.map(|name| text::checked("name", name, MAX_NAME_BYTES)).transpose()?;
    let record = operation.begin("snapshot_workspace", Some(id), Summary::default());
    let key = key.map(|key| IdempotencyKey { owner: caller.id(), key, fingerprint: body.fingerprint });
    let taken = workspaces.snapshot_once(id, name, Some(caller.id()), key).await.map_err(ApiError::from);
    let taken = record.end(taken)?;
    Ok(create::answer(StatusCode::CREATED, Snapshot::from(taken.row), taken.replayed))
}
