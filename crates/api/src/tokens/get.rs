//! `GET /api/v1/tokens/{token_id}`

use axum::Json;
use axum::extract::State;

use super::view::Token;
use crate::auth::Caller;
use crate::errors::ErrorCode::TokenNotFound;
use crate::errors::{ApiError, PRIVATE, documented_errors};
use crate::extract::TokenPath;
use crate::state::ApiState;

documented_errors!(Errors: PRIVATE, &[TokenNotFound]);

/// Tells about a token, never the token itself.
#[utoipa::path(
    get,
    path = "/api/v1/tokens/{token_id}",
    tag = "tokens",
    operation_id = "get_token",
    params(("token_id" = String, Path, description = "The token's id.")),
    responses((status = 200, description = "About the token.", body = Token), Errors)
)]
pub(crate) async fn get(
    State(state): State<ApiState>,
    caller: Caller,
    TokenPath(id): TokenPath,
) -> Result<Json<Token>, ApiError> {
    Ok(Json(super::visible(&state, &caller, id).await?.into()))
}
