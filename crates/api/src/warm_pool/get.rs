//! `GET /api/v1/warm-pool`

use axum::Json;

use super::view::WarmPool;
use crate::errors::ErrorCode::FeatureDisabled;
use crate::errors::{ApiError, PRIVATE, documented_errors};
use crate::extract::Workspaces;

documented_errors!(Errors: PRIVATE, &[FeatureDisabled]);

/// Tells about the sandboxes that are made ahead of time, and how often they served.
#[utoipa::path(
    get,
    path = "/api/v1/warm-pool",
    tag = "warm pool",
    operation_id = "get_warm_pool",
    responses((status = 200, description = "The pools.", body = WarmPool), Errors)
)]
pub(crate) async fn get(Workspaces(workspaces): Workspaces) -> Result<Json<WarmPool>, ApiError> {
    Ok(Json(workspaces.pools().into()))
}
