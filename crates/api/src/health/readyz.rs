//! `GET /readyz`

use axum::Json;
use axum::extract::State;
use emergent_workspaces::{Handle, LifecycleError};

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
    if state.workspaces().is_some_and(Handle::is_closing) {
        return Err(LifecycleError::ShuttingDown.into());
    }
    if state.health().check(state.store()).await? {
        return Ok(Json(Health::OK));
    }
    Err(ApiError::store_unavailable("it was asked a moment ago"))
}
