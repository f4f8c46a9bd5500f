//! Lets pass only who has a token.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use emergent_store::{TokenId, TokenKind};

use super::BearerToken;
use crate::errors::{ApiError, ErrorCode};
use crate::state::ApiState;

/// Who is asking.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) token: TokenId,
}

/// Lets pass only who has a token, and notes who it is.
pub(crate) async fn require_token(
    State(state): State<ApiState>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let token = bearer_token(request.headers()).ok_or_else(|| {
        ApiError::new(ErrorCode::Unauthorized, "a token is needed: send it as `Authorization: Bearer …`")
    })?;
    let known = state.tokens().find(&token).await.map_err(ApiError::from)?;
    let known = known.ok_or_else(|| {
        ApiError::new(ErrorCode::Unauthorized, "this token is not known here, or its time is over")
    })?;
    if known.kind != TokenKind::Admin {
        return Err(ApiError::new(
            ErrorCode::Forbidden,
            format!("a token of kind {} is not enough for this", known.kind),
        ));
    }
    request.extensions_mut().insert(Caller { token: known.id });
    Ok(next.run(request).await)
}

/// The one bearer token of a request.
fn bearer_token(headers: &HeaderMap) -> Option<BearerToken> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| BearerToken::from(token.to_owned()))
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        // Only a route that is not behind `require_token` can be without one.
        parts.extensions.get().copied().ok_or_else(|| ApiError::internal("an endpoint is not behind a token"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[&str], expect: Option<&str>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        let found = bearer_token(&headers);
        assert_eq!(found.as_ref().map(BearerToken::expose), expect, "{values:?}");
    }

    #[test]
    fn one_bearer_token() {
        check(&["Bearer abc"], Some("abc"));
        check(&["bearer  abc "], Some("abc"));
        check(&[], None);
        check(&[""], None);
        check(&["Bearer"], None);
        check(&["Bearer "], None);
        check(&["abc"], None);
        check(&["Basic YTpi"], None);
        check(&["Bearer abc", "Bearer def"], None);
    }
}
