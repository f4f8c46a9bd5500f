//! `POST /api/v1/agent/workspaces`

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use emergent_store::IdempotencyKey;
use emergent_types::WorkspaceId;
use emergent_workspaces::{Handle, NewWorkspace};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::create_request::CreateWorkspace;
use super::repositories;
use super::view::Workspace;
use crate::audit::{Operation, Summary};
use crate::auth::Caller;
use crate::errors::ErrorCode::{
    FeatureDisabled, IdempotencyConflict, ImageNotFound, LimitReached, NoProviderAvailable, NotEnforceable,
    NotSupported, ProviderDisabled, RepositoryNotAllowed, WorkspaceDestroyed,
};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, documented_errors};
use crate::extract::{FingerprintedBody, IdempotencyHeader, Query, Workspaces};
use crate::metrics::names;
use crate::state::ApiState;

/// Says that nothing was made, because it had been before.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// How to answer.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// Whether to answer only when the workspace is ready (the default), or at once.
    pub(super) wait: Option<bool>,
}

documented_errors!(Errors: PRIVATE, JSON_BODY, &[
    NotSupported,
    NotEnforceable,
    ProviderDisabled,
    RepositoryNotAllowed,
    FeatureDisabled,
    ImageNotFound,
    IdempotencyConflict,
    WorkspaceDestroyed,
    LimitReached,
    NoProviderAvailable,
]);

/// Creates a workspace.
///
/// A repository is checked out before it is ready. Where that fails, the workspace is ready all the same,
/// without the code, and `checkout` says why.
///
/// Answers when the workspace is ready; a failure then leaves nothing behind. With
/// `wait=false` it answers at once, and a failure shows in the workspace's `status` and
/// `error`.
///
/// Sent again with the same `Idempotency-Key`, it makes no second workspace: the answer is the
/// first one, with the header `Idempotency-Replayed`.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces",
    tag = "workspaces",
    operation_id = "create_workspace",
    params(
        Parameters,
        ("Idempotency-Key" = Option<String>, Header, description = "Up to 255 characters that name this create."),
    ),
    request_body = CreateWorkspace,
    responses(
        (status = 201, description = "It is ready.", body = Workspace),
        (status = 202, description = "It is being made (`wait=false`).", body = Workspace),
        Errors,
    )
)]
pub(crate) async fn create(
    State(state): State<ApiState>,
    Workspaces(workspaces): Workspaces,
    caller: Caller,
    operation: Operation,
    IdempotencyHeader(key): IdempotencyHeader,
    Query(parameters): Query<Parameters>,
    body: FingerprintedBody<CreateWorkspace>,
) -> Result<Response, ApiError> {
    let wait = parameters.wait.unwrap_or(true);
    let new = body.value.parse(caller.id())?;
    repositories::check_hosts(state.checkout(), &new.repositories)?;
    let key = key.map(|key| IdempotencyKey { owner: caller.id(), key, fingerprint: body.fingerprint });
    let summary = Summary::default()
        .text("provider", new.provider.as_str())
        .maybe("base_image", new.base_image.as_deref())
        .maybe("repository_url", new.repositories.first().map(|repository| repository.url.as_str()))
        .value("wait", wait);
    made(&workspaces, new, wait, key, operation, ("create_workspace", summary)).await
}

/// Makes it, and says so.
pub(super) async fn made(
    workspaces: &Handle,
    new: NewWorkspace,
    wait: bool,
    key: Option<IdempotencyKey>,
    operation: Operation,
    (name, summary): (&'static str, Summary),
) -> Result<Response, ApiError> {
    let started = Instant::now();
    let id = WorkspaceId::generate();
    let new = NewWorkspace { id: Some(id), ..new };
    let mut record = operation.begin(name, Some(id), summary);
    let created = workspaces.create_once(new, wait, key).await.map_err(ApiError::from);
    if let Ok(created) = &created {
        // One that was made ahead of time has a name already.
        record.about(created.row.id);
    }
    let created = record.end(created)?;
    if wait && !created.replayed {
        metrics::histogram!(names::CREATE_SECONDS, "provider" => created.row.provider.as_str())
            .record(started.elapsed().as_secs_f64());
    }
    let status = if wait { StatusCode::CREATED } else { StatusCode::ACCEPTED };
    Ok(answer(status, Workspace::from(created.row), created.replayed))
}

/// What was made under a key, now or before.
pub(super) fn answer(status: StatusCode, body: impl Serialize, replayed: bool) -> Response {
    let mut response = (status, Json(body)).into_response();
    if replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}
