//! `PUT /api/v1/warm-pool`

use axum::Json;
use serde::Deserialize;
use utoipa::ToSchema;

use super::view::WarmPool;
use crate::audit::{Operation, Summary};
use crate::errors::ErrorCode::FeatureDisabled;
use crate::errors::{ApiError, JSON_BODY, PRIVATE, documented_errors};
use crate::extract::{JsonBody, Workspaces};

/// The largest pool.
const MAX_SIZE: u32 = 100;

/// How large the pool should be.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResizeWarmPool {
    /// How many sandboxes are kept ready: 0 to 100.
    #[schema(maximum = 100)]
    size: u32,
}

documented_errors!(Errors: PRIVATE, JSON_BODY, &[FeatureDisabled]);

/// Changes the size of the default pool. Sandboxes are made or removed in the background. The size is kept
/// over restarts, until the server's configuration says another one than it does now.
#[utoipa::path(
    put,
    path = "/api/v1/warm-pool",
    tag = "warm pool",
    operation_id = "resize_warm_pool",
    request_body = ResizeWarmPool,
    responses((status = 200, description = "The pools.", body = WarmPool), Errors)
)]
pub(crate) async fn put(
    Workspaces(workspaces): Workspaces,
    operation: Operation,
    JsonBody(request, _): JsonBody<ResizeWarmPool>,
) -> Result<Json<WarmPool>, ApiError> {
    let size = request.size;
    if size > MAX_SIZE {
        return Err(ApiError::invalid("size", format!("must be between 0 and {MAX_SIZE}, not {size}")));
    }
    let record = operation.begin("resize_warm_pool", None, Summary::default().value("size", size));
    Ok(Json(record.end(workspaces.set_pool_size(size).await.map_err(ApiError::from))?.into()))
}
