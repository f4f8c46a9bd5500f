//! Headers that change what a request means.

use axum::extract::FromRequestParts;
use axum::http::HeaderName;
use axum::http::request::Parts;

use crate::errors::ApiError;

/// The header.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest `Idempotency-Key`.
const MAX_KEY_BYTES: usize = 255;

/// What a client calls one create, so that it happens once however often it is sent.
pub(crate) struct IdempotencyHeader(pub(crate) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyHeader {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let mut values = parts.headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(value) = values.next() else { return Ok(Self(None)) };
        if values.next().is_some() {
            return Err(ApiError::invalid("Idempotency-Key", "must be there once"));
        }
        let visible = |byte: u8| (b' '..=b'~').contains(&byte);
        let key = value.as_bytes();
        if !(1..=MAX_KEY_BYTES).contains(&key.len()) || !key.iter().copied().all(visible) {
            return Err(ApiError::invalid(
                "Idempotency-Key",
                format!("must have 1 to {MAX_KEY_BYTES} visible ASCII characters"),
            ));
        }
        Ok(Self(Some(String::from_utf8_lossy(key).into_owned())))
    }
}
