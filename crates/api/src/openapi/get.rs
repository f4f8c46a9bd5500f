//! `GET /api/v1/openapi.json`

use std::sync::OnceLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::openapi_json;
use crate::errors::{ApiError, PUBLIC, documented_errors};

documented_errors!(Errors: PUBLIC);

/// This document.
#[utoipa::path(
    get,
    path = "/api/v1/openapi.json",
    tag = "document",
    operation_id = "openapi",
    security(()),
    responses((status = 200, description = "OpenAPI 3.1.", body = Object), Errors)
)]
pub(crate) async fn get() -> Response {
    static DOCUMENT: OnceLock<Result<String, String>> = OnceLock::new();
    match DOCUMENT.get_or_init(|| openapi_json().map_err(|error| error.to_string())) {
        Ok(document) => ([(header::CONTENT_TYPE, "application/json")], document.as_str()).into_response(),
        Err(reason) => ApiError::internal(reason.as_str()).into_response(),
    }
}
