//! `POST /api/v1/agent/workspaces/from-snapshot`

use axum::response::Response;
use emergent_store::IdempotencyKey;

use super::create::{self, Parameters};
use super::create_request::RestoreWorkspace;
use super::view::Workspace;
use crate::audit::{Operation, Summary};
use crate::auth::Caller;
use crate::errors::ErrorCode::{
    FeatureDisabled, IdempotencyConflict, LimitReached, NoProviderAvailable, NotEnforceable,
    SnapshotNotFound, WorkspaceDestroyed,
};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, documented_errors};
use crate::extract::{FingerprintedBody, IdempotencyHeader, Query, Workspaces};
use crate::snapshots;

documented_errors!(Errors: PRIVATE, JSON_BODY, &[
    NotEnforceable,
    FeatureDisabled,
    SnapshotNotFound,
    IdempotencyConflict,
    WorkspaceDestroyed,
    LimitReached,
    NoProviderAvailable,
]);

/// Creates a workspace whose files are those of a snapshot.
///
/// It runs where the snapshot is, with the limits and the network that its workspace had, unless the request
/// names others: never with more reach, a weaker isolation or a smaller disk. Answers as creating any
/// workspace does.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/from-snapshot",
    tag = "snapshots",
    operation_id = "create_workspace_from_snapshot",
    params(
        Parameters,
        ("Idempotency-Key" = Option<String>, Header, description = "Up to 255 characters that name this create."),
    ),
    request_body = RestoreWorkspace,
    responses(
        (status = 201, description = "It is ready.", body = Workspace),
        (status = 202, description = "It is being made (`wait=false`).", body = Workspace),
        Errors,
    )
)]
pub(crate) async fn from_snapshot(
    Workspaces(workspaces): Workspaces,
    caller: Caller,
    operation: Operation,
    IdempotencyHeader(key): IdempotencyHeader,
    Query(parameters): Query<Parameters>,
    body: FingerprintedBody<RestoreWorkspace>,
) -> Result<Response, ApiError> {
    let wait = parameters.wait.unwrap_or(true);
    let snapshot = snapshots::visible(&workspaces, &caller, body.value.snapshot_id).await?;
    let new = body.value.parse(caller.id())?;
    let key = key.map(|key| IdempotencyKey { owner: caller.id(), key, fingerprint: body.fingerprint });
    let summary = Summary::default().text("snapshot_id", &snapshot.id.to_string()).value("wait", wait);
    create::made(&workspaces, new, wait, key, operation, ("restore_workspace", summary)).await
}
