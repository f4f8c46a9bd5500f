//! `GET /healthz`

use axum::Json;

use super::Health;
use crate::errors::{PUBLIC, documented_errors};

documented_errors!(Errors: PUBLIC);

/// Says that the server lives.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "health",
    operation_id = "healthz",
    security(()),
    responses((status = 200, description = "It lives.", body = Health), Errors)
)]
pub(crate) async fn healthz() -> Json<Health> {
    Json(Health::OK)
}
