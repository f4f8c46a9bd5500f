//! `PUT /api/v1/settings/git-hosts`

use axum::Json;
use axum::extract::State;
use emergent_checkout::SetTokenError;
use emergent_store::SecretText;
use serde::Deserialize;
use utoipa::ToSchema;

use super::view::GitHost;
use crate::audit::{Operation, Summary};
use crate::auth::Caller;
use crate::errors::ErrorCode::{NotSupported, RepositoryNotAllowed};
use crate::errors::{ApiError, ErrorCode, JSON_BODY, PRIVATE, documented_errors};
use crate::extract::JsonBody;
use crate::state::ApiState;
use crate::workspaces::text;

/// The longest token or name.
const MAX_BYTES: usize = 4096;

/// The name where a request gives none: most hosts take any.
const DEFAULT_USERNAME: &str = "git";

/// A token for a git host.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetGitHost {
    /// The host: scheme, name and, where it is not the scheme's own, port.
    #[schema(value_type = String, required = true, example = "https://git.example")]
    host: Option<String>,
    /// The token.
    #[schema(value_type = String, required = true)]
    token: Option<String>,
    /// The name that goes with it; `git` where not said.
    username: Option<String>,
}

documented_errors!(Errors: PRIVATE, JSON_BODY, &[NotSupported, RepositoryNotAllowed]);

/// Stores the token of a git host that is not GitHub, encrypted, in the place of the one that was stored before.
///
/// The host must be one of `CHECKOUT_ALLOWED_HOSTS`. Workspaces use the token for the repositories that they
/// have there, and never see it.
#[utoipa::path(
    put,
    path = "/api/v1/settings/git-hosts",
    tag = "settings",
    operation_id = "set_git_host",
    request_body = SetGitHost,
    responses((status = 200, description = "It is stored.", body = GitHost), Errors)
)]
pub(crate) async fn put(
    State(state): State<ApiState>,
    caller: Caller,
    operation: Operation,
    JsonBody(request, _): JsonBody<SetGitHost>,
) -> Result<Json<GitHost>, ApiError> {
    let checkout = super::checkout(&state)?;
    let origin = super::origin(&text::required("host", request.host)?)?;
    let token = text::checked("token", text::required("token", request.token)?, MAX_BYTES)?;
    let username = request.username.unwrap_or_else(|| DEFAULT_USERNAME.to_owned());
    let username = text::checked("username", username, MAX_BYTES)?;
    if username.contains(':') || username.contains(char::is_control) {
        return Err(ApiError::invalid("username", "has a colon or control characters"));
    }
    if token.contains(char::is_control) {
        return Err(ApiError::invalid("token", "has control characters"));
    }
    let summary = Summary::default().text("host", &origin.to_string());
    let record = operation.begin("set_git_host", None, summary);
    let token = SecretText::from(token);
    let stored = checkout.set_host_token(&origin, username, token, Some(caller.id())).await;
    let stored = stored.map_err(|error| match error {
        SetTokenError::NotAllowed(error) => {
            ApiError::about(ErrorCode::RepositoryNotAllowed, "host", error.to_string())
        }
        SetTokenError::IsGitHub => ApiError::invalid("host", error.to_string()),
        SetTokenError::Store(error) => error.into(),
    });
    Ok(Json(record.end(stored)?.into()))
}
