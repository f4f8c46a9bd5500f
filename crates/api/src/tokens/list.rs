//! `GET /api/v1/tokens`

use axum::Json;
use axum::extract::State;
use emergent_store::TokenFilter;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::view::Token;
use crate::auth::Caller;
use crate::errors::{ApiError, PRIVATE, QUERY, documented_errors};
use crate::extract::{Query, page};
use crate::state::ApiState;

/// How many.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// How many at most: 1 to 500, else 50.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// A page of tokens.
#[derive(Serialize, ToSchema)]
pub(crate) struct TokenList {
    /// Newest first; revoked and expired ones too.
    items: Vec<Token>,
    /// Asks for the next page; null on the last one.
    #[schema(required = true)]
    next_cursor: Option<String>,
}

documented_errors!(Errors: PRIVATE, QUERY);

/// Lists tokens, newest first. A `user` sees those it made.
#[utoipa::path(
    get,
    path = "/api/v1/tokens",
    tag = "tokens",
    operation_id = "list_tokens",
    params(Parameters),
    responses((status = 200, description = "A page.", body = TokenList), Errors)
)]
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    Query(parameters): Query<Parameters>,
) -> Result<Json<TokenList>, ApiError> {
    let after = page::cursor(parameters.cursor.as_deref())?;
    let filter = TokenFilter { owner: caller.owner_filter() };
    let page = state.store().list_tokens(filter, after, page::limit(parameters.limit)?).await?;
    let (items, next_cursor) = page::shown(page);
    Ok(Json(TokenList { items, next_cursor }))
}
