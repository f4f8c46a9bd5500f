//! `GET /api/v1/settings/git-hosts`

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::view::GitHost;
use crate::errors::ErrorCode::NotSupported;
use crate::errors::{ApiError, PRIVATE, documented_errors};
use crate::state::ApiState;

/// The git hosts that tokens are stored for.
#[derive(Serialize, ToSchema)]
pub(crate) struct GitHosts {
    /// By name.
    items: Vec<GitHost>,
}

documented_errors!(Errors: PRIVATE, &[NotSupported]);

/// Lists the git hosts that tokens are stored for. The tokens are never shown.
#[utoipa::path(
    get,
    path = "/api/v1/settings/git-hosts",
    tag = "settings",
    operation_id = "list_git_hosts",
    responses((status = 200, description = "The hosts.", body = GitHosts), Errors)
)]
pub(crate) async fn list(State(state): State<ApiState>) -> Result<Json<GitHosts>, ApiError> {
    let rows = super::checkout(&state)?.host_tokens().await?;
    Ok(Json(GitHosts { items: rows.into_iter().map(GitHost::from).collect() }))
}
