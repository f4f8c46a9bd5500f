//! `DELETE /api/v1/tokens/{token_id}`

use std::num::NonZeroU32;

use axum::Json;
use axum::extract::State;
use emergent_store::{ApiToken, Store, TokenFilter, TokenId, TokenKind};

use super::view::Token;
use crate::audit::{Operation, Summary};
use crate::auth::{Caller, TokenDirectory};
use crate::errors::ErrorCode::{self, LastAdminToken, TokenNotFound};
use crate::errors::{ApiError, PRIVATE, documented_errors};
use crate::extract::TokenPath;
use crate::state::ApiState;

/// How many tokens are looked at at once in search of another administrator.
const PAGE: NonZeroU32 = NonZeroU32::new(500).unwrap();

documented_errors!(Errors: PRIVATE, &[TokenNotFound, LastAdminToken]);

/// Revokes a token, with the sessions that were made with it.
///
/// They stop working at once, and so does everything they are used for at that moment. Can be
/// repeated. The last `admin` token that does not expire cannot be revoked.
#[utoipa::path(
    delete,
    path = "/api/v1/tokens/{token_id}",
    tag = "tokens",
    operation_id = "revoke_token",
    params(("token_id" = String, Path, description = "The token's id.")),
    responses((status = 200, description = "It is revoked.", body = Token), Errors)
)]
pub(crate) async fn revoke(
    State(state): State<ApiState>,
    caller: Caller,
    TokenPath(id): TokenPath,
    operation: Operation,
) -> Result<Json<Token>, ApiError> {
    let summary = Summary::default().value("token_id", id.to_string());
    let record = operation.begin("revoke_token", None, summary);
    // On a task of its own: whoever revokes the token they call with is cut off by it.
    let revoking = tokio::spawn(async move {
        let result = revoke_now(&state, &caller, id).await;
        record.end(result)
    });
    let ended = revoking.await.map_err(|error| ApiError::internal(error.to_string()))??;
    Ok(Json(ended.token.clone().into()))
}

/// Tokens that are revoked. Dropped, they end here as well, with everything they are used for;
/// so whoever revokes the token they call with still gets an answer.
struct EndedTokens {
    token: ApiToken,
    ids: Vec<TokenId>,
    directory: TokenDirectory,
}

impl Drop for EndedTokens {
    fn drop(&mut self) {
        for id in &self.ids {
            self.directory.forget(*id);
        }
    }
}

async fn revoke_now(state: &ApiState, caller: &Caller, id: TokenId) -> Result<EndedTokens, ApiError> {
    let token = super::visible(state, caller, id).await?;
    // One at a time: of two administrators who revoke each other, one stays.
    let _turn = state.revocations().lock().await;
    if token.kind == TokenKind::Admin && !another_admin(state.store(), id).await? {
        return Err(ApiError::new(
            ErrorCode::LastAdminToken,
            "this is the last admin token that does not expire: make another one first",
        ));
    }
    let revoked = state.store().revoke_token(id, emergent_store::now()).await?;
    let revoked = revoked.ok_or_else(|| super::not_found(id))?;
    Ok(EndedTokens { token: revoked.token, ids: revoked.ids, directory: state.tokens().clone() })
}

/// Whether there is another token that will always be able to administer the server.
async fn another_admin(store: &dyn Store, id: TokenId) -> Result<bool, ApiError> {
    let mut after = None;
    loop {
        let page = store.list_tokens(TokenFilter::default(), after, PAGE).await?;
        let lasts = |token: &ApiToken| {
            token.kind == TokenKind::Admin
                && token.id != id
                && token.expires_at.is_none()
                && token.revoked_at.is_none()
        };
        if page.items.iter().any(lasts) {
            return Ok(true);
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(false),
        }
    }
}
