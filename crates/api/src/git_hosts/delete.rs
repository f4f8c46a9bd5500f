//! `DELETE /api/v1/settings/git-hosts`

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::audit::{Operation, Summary};
use crate::errors::ErrorCode::{GitHostNotFound, InvalidRequest, NotSupported};
use crate::errors::{ApiError, ErrorCode, PRIVATE, documented_errors};
use crate::extract::Query;
use crate::state::ApiState;

/// Which host.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// The host, as it is listed.
    host: String,
}

/// A host whose token is forgotten.
#[derive(Serialize, ToSchema)]
pub(crate) struct ForgottenGitHost {
    /// The host.
    host: String,
}

documented_errors!(Errors: PRIVATE, &[InvalidRequest, NotSupported, GitHostNotFound]);

/// Forgets the token of a git host.
#[utoipa::path(
    delete,
    path = "/api/v1/settings/git-hosts",
    tag = "settings",
    operation_id = "forget_git_host",
    params(Parameters),
    responses((status = 200, description = "It is forgotten.", body = ForgottenGitHost), Errors)
)]
pub(crate) async fn delete(
    State(state): State<ApiState>,
    operation: Operation,
    Query(parameters): Query<Parameters>,
) -> Result<Json<ForgottenGitHost>, ApiError> {
    let checkout = super::checkout(&state)?;
    let origin = super::origin(&parameters.host)?;
    let record =
        operation.begin("forget_git_host", None, Summary::default().text("host", &origin.to_string()));
    let forgotten = checkout.forget_host_token(&origin).await.map_err(ApiError::from);
    let forgotten = forgotten.and_then(|was_there| match was_there {
        true => Ok(ForgottenGitHost { host: origin.to_string() }),
        false => Err(ApiError::new(ErrorCode::GitHostNotFound, format!("no token is stored for {origin}"))),
    });
    Ok(Json(record.end(forgotten)?))
}
