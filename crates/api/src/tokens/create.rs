//! `POST /api/v1/tokens`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use emergent_store::{ApiToken, IdempotencyKey, InsertTokenError, TokenId, TokenKind};
use serde::Serialize;
use utoipa::ToSchema;

use super::create_request::{CreateToken, NewToken};
use super::view::Token;
use crate::audit::{Operation, Summary};
use crate::auth::{BearerToken, Caller};
use crate::errors::ErrorCode::{
    self, FeatureDisabled, IdempotencyConflict, IdempotencyReplayed, WorkspaceNotFound,
};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, documented_errors};
use crate::extract::{FingerprintedBody, IdempotencyHeader};
use crate::state::ApiState;

/// A new token, this once with what makes it one.
#[derive(Serialize, ToSchema)]
pub(crate) struct NewTokenAnswer {
    #[serde(flatten)]
    about: Token,
    /// What to send as `Authorization: Bearer …`. It is shown here and never again.
    token: String,
}

documented_errors!(Errors: PRIVATE, JSON_BODY, &[
    FeatureDisabled,
    IdempotencyConflict,
    IdempotencyReplayed,
    WorkspaceNotFound,
]);

/// Makes a token.
///
/// An `admin` makes tokens of every kind; a `user` makes `session` tokens for its own
/// workspaces, which end with it.
///
/// Sent again with the same `Idempotency-Key`, it makes no second token. What makes the first one a
/// token is kept nowhere and cannot be shown again, so the answer is `idempotency_replayed`, with
/// its id in `details.token_id`: whoever never saw it revokes it and makes another under another key.
#[utoipa::path(
    post,
    path = "/api/v1/tokens",
    tag = "tokens",
    operation_id = "create_token",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Up to 255 characters that name this create."),
    ),
    request_body = CreateToken,
    responses((status = 201, description = "The token, this once.", body = NewTokenAnswer), Errors)
)]
pub(crate) async fn create(
    State(state): State<ApiState>,
    caller: Caller,
    operation: Operation,
    IdempotencyHeader(key): IdempotencyHeader,
    body: FingerprintedBody<CreateToken>,
) -> Result<(StatusCode, Json<NewTokenAnswer>), ApiError> {
    let new = body.value.parse(emergent_store::now())?;
    let key = key.map(|key| IdempotencyKey { owner: caller.id(), key, fingerprint: body.fingerprint });
    let id = TokenId::generate();
    let summary = Summary::default()
        .value("token_id", id.to_string())
        .text("name", &new.name)
        .text("kind", new.kind.as_str());
    let record =
        operation.begin("create_token", new.session.as_ref().map(|session| session.workspace_id), summary);
    let made = make(&state, &caller, id, new, key).await;
    record.end(made.map(|answer| (StatusCode::CREATED, Json(answer))))
}

async fn make(
    state: &ApiState,
    caller: &Caller,
    id: TokenId,
    new: NewToken,
    key: Option<IdempotencyKey>,
) -> Result<NewTokenAnswer, ApiError> {
    if caller.kind() != TokenKind::Admin && new.kind != TokenKind::Session {
        return Err(ApiError::new(
            ErrorCode::Forbidden,
            format!("a token of kind {} makes only tokens of kind session", caller.kind()),
        ));
    }
    if let Some(session) = &new.session {
        let workspaces = state.workspaces().ok_or_else(ApiError::feature_disabled)?;
        let usable = workspaces
            .owner(session.workspace_id)
            .filter(|owner| caller.may_use(session.workspace_id, *owner));
        usable.ok_or_else(|| ApiError::workspace_not_found(session.workspace_id))?;
    }
    let foreign = |name: &&String| !caller.may_use_server(name);
    if let Some(name) = new.mcp_servers.iter().flatten().find(foreign) {
        return Err(ApiError::mcp_server_not_found(name));
    }
    let token = match new.kind {
        TokenKind::E2b => BearerToken::generate_e2b(),
        _ => BearerToken::generate(),
    }
    .map_err(|error| ApiError::internal(error.to_string()))?;
    // A session is lent out and ends with whoever lent it. Others stand for themselves, so that
    // an administrator can be replaced.
    let is_lent = new.kind == TokenKind::Session;
    let row = ApiToken {
        id,
        name: new.name,
        kind: new.kind,
        hash: token.hash(),
        created_at: emergent_store::now(),
        expires_at: match (new.expires_at, caller.expires_at().filter(|_| is_lent)) {
            (Some(own), Some(lender)) => Some(own.min(lender)),
            (own, lender) => own.or(lender),
        },
        owner_id: is_lent.then(|| caller.id()),
        revoked_at: None,
        session: new.session,
        mcp_servers: new.mcp_servers,
    };
    state.store().insert_token(&row, key.as_ref()).await.map_err(refused)?;
    Ok(NewTokenAnswer { about: row.into(), token: token.expose().to_owned() })
}

fn refused(error: InsertTokenError) -> ApiError {
    match error {
        InsertTokenError::Store(error) => error.into(),
        // Revoked while this ran.
        InsertTokenError::OwnerRevoked { .. } => ApiError::new(ErrorCode::Unauthorized, error.to_string()),
        InsertTokenError::KeyKnown { token_id, same_request } => {
            let (code, message) = if same_request {
                let message = "was made under this Idempotency-Key, and is shown once only";
                (IdempotencyReplayed, format!("token {token_id} {message}"))
            } else {
                let message = "this Idempotency-Key was used for another request, which made token";
                (IdempotencyConflict, format!("{message} {token_id}"))
            };
            ApiError::new(code, message).detail("token_id", token_id.to_string())
        }
        error => ApiError::internal(error.to_string()),
    }
}
