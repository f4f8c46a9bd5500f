//! `POST /api/v1/agent/workspaces/{id}/fork`

use axum::http::StatusCode;
use axum::response::Response;
use emergent_store::IdempotencyKey;
use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::create;
use super::view::Workspace;
use crate::audit::{Operation, Summary};
use crate::auth::Caller;
use crate::errors::ErrorCode::{
    IdempotencyConflict, LimitReached, NoProviderAvailable, NotEnforceable, NotSupported, ProviderFailed,
    WorkspaceNotReady,
};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, WORKSPACE, documented_errors};
use crate::extract::{IdempotencyHeader, OptionalFingerprintedBody, WorkspacePath, Workspaces};

/// The most at once.
const MAX_COUNT: usize = 16;

/// How to fork it.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkWorkspace {
    /// How many, 1 where not said.
    #[schema(minimum = 1, maximum = 16)]
    count: Option<usize>,
}

/// What was made.
#[derive(Serialize, ToSchema)]
pub(crate) struct Forks {
    /// Each of them.
    items: Vec<Workspace>,
}

documented_errors!(Errors: PRIVATE, JSON_BODY, WORKSPACE, &[
    NotSupported, NotEnforceable, WorkspaceNotReady, IdempotencyConflict, LimitReached, ProviderFailed,
    NoProviderAvailable,
]);

/// Makes workspaces that have the files of this one as they are now, and all that was asked for when it was
/// made: limits, network, environment, metadata. All of them or none. What runs is not copied.
///
/// Sent again with the same `Idempotency-Key`, it makes no others: the answer is the first one, with the header
/// `Idempotency-Replayed`.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/{id}/fork",
    tag = "snapshots",
    operation_id = "fork_workspace",
    params(
        ("id" = WorkspaceId, Path, description = "The workspace."),
        ("Idempotency-Key" = Option<String>, Header, description = "Up to 255 characters that name this fork."),
    ),
    request_body = Option<ForkWorkspace>,
    responses((status = 201, description = "They are ready.", body = Forks), Errors)
)]
pub(crate) async fn fork(
    Workspaces(workspaces): Workspaces,
    WorkspacePath(id): WorkspacePath,
    caller: Caller,
    operation: Operation,
    IdempotencyHeader(key): IdempotencyHeader,
    body: OptionalFingerprintedBody<ForkWorkspace>,
) -> Result<Response, ApiError> {
    let count = body.value.count.unwrap_or(1);
    if !(1..=MAX_COUNT).contains(&count) {
        return Err(ApiError::invalid("count", format!("must be between 1 and {MAX_COUNT}, not {count}")));
    }
    let record = operation.begin("fork_workspace", Some(id), Summary::default().value("count", count));
    let key = key.map(|key| IdempotencyKey { owner: caller.id(), key, fingerprint: body.fingerprint });
    let made = workspaces.fork(id, count, Some(caller.id()), key).await.map_err(ApiError::from);
    let made = record.end(made)?;
    let forks = Forks { items: made.rows.into_iter().map(Workspace::from).collect() };
    Ok(create::answer(StatusCode::CREATED, forks, made.replayed))
}
