//! `POST /api/v1/agent/workspaces`

use axum::Json;
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::create_request::CreateWorkspace;
use super::view::Workspace;
use crate::auth::Caller;
use crate::errors::ErrorCode::{
    AgentUnreachable, FeatureDisabled, LimitReached, NoProviderAvailable, NotEnforceable, NotSupported,
    WorkspaceDestroyed,
};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, documented_errors};
use crate::extract::{JsonBody, NoIdempotencyKey, Query, Workspaces};

/// How to answer.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// Whether to answer only when the workspace is ready (the default), or at once.
    wait: Option<bool>,
}

documented_errors!(Errors: PRIVATE, JSON_BODY, &[
    NotSupported,
    NotEnforceable,
    FeatureDisabled,
    WorkspaceDestroyed,
    LimitReached,
    AgentUnreachable,
    NoProviderAvailable,
]);

/// Creates a workspace.
///
/// Answers when the workspace is ready; a failure then leaves nothing behind. With
/// `wait=false` it answers at once, and a failure shows in the workspace's `status` and
/// `error`.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces",
    tag = "workspaces",
    operation_id = "create_workspace",
    params(Parameters),
    request_body = CreateWorkspace,
    responses(
        (status = 201, description = "It is ready.", body = Workspace),
        (status = 202, description = "It is being made (`wait=false`).", body = Workspace),
        Errors,
    )
)]
pub(crate) async fn create(
    Workspaces(workspaces): Workspaces,
    caller: Caller,
    _: NoIdempotencyKey,
    Query(parameters): Query<Parameters>,
    JsonBody(request): JsonBody<CreateWorkspace>,
) -> Result<(StatusCode, Json<Workspace>), ApiError> {
    let wait = parameters.wait.unwrap_or(true);
    let new = request.parse(caller.token)?;
    let row = workspaces.create(new, wait).await?;
    let status = if wait { StatusCode::CREATED } else { StatusCode::ACCEPTED };
    Ok((status, Json(row.into())))
}
