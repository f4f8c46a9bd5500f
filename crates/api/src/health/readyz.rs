//! `GET /readyz`

use axum::Json;
use axum::extract::State;

use super::Health;
use crate::errors::ErrorCode::{ShuttingDown, StoreUnavailable};
use crate::errors::{ApiError, PUBLIC, documented_errors};
use crate::state::ApiState;

documented_errors!(Errors: PUBLIC, &[StoreUnavailable, ShuttingDown]);

/// Says whether the server works: it is not going down, and its database answers.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "health",
    operation_id = "readyz",
    security(()),
    responses((status = 200, description = "It works.", body = Health), Errors)
)]
pub(crate) async fn readyz(State(state): State<ApiState>) -> Result<Json<Health>, ApiError> {
    match state.workspaces() {
        Some(workspaces) => workspaces.health().await?,
        None => state.store().health().await?,
    }
    Ok(Json(Health::OK))
}
