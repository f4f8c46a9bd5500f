//! API tokens: who may use this server.

pub(crate) mod create;
mod create_request;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod revoke;
mod view;

use emergent_store::{ApiToken, TokenId};

use crate::auth::Caller;
use crate::errors::{ApiError, ErrorCode};
use crate::state::ApiState;

/// A token that the caller may know of: any for those who see all, else its own and those it
/// made. A stranger's looks like none.
async fn visible(state: &ApiState, caller: &Caller, id: TokenId) -> Result<ApiToken, ApiError> {
    let found = state.store().get_token(id).await?;
    let own = |token: &ApiToken| token.id == caller.id() || token.owner_id == Some(caller.id());
    found.filter(|token| caller.sees_all() || own(token)).ok_or_else(|| not_found(id))
}

fn not_found(id: TokenId) -> ApiError {
    ApiError::new(ErrorCode::TokenNotFound, format!("token {id} does not exist"))
}
