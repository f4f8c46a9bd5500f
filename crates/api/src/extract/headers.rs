//! Headers that ask for something this version cannot do. Ignoring them would break the
//! promise their sender relies on.

use axum::extract::FromRequestParts;
use axum::http::header::ACCEPT;
use axum::http::request::Parts;

use crate::errors::ApiError;

/// A request without `Idempotency-Key`: repeating it would create a second workspace, and
/// whoever sends the key relies on the opposite.
pub(crate) struct NoIdempotencyKey;

impl<S: Send + Sync> FromRequestParts<S> for NoIdempotencyKey {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        match parts.headers.get("idempotency-key") {
            None => Ok(Self),
            Some(_) => Err(ApiError::not_supported("Idempotency-Key", "repeated creates are not recognised")),
        }
    }
}

/// A request that takes JSON for an answer, not only a stream of events.
pub(crate) struct AcceptsJson;

impl<S: Send + Sync> FromRequestParts<S> for AcceptsJson {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let mut accepted = parts.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let takes_json =
            |value: &str| value.contains("json") || value.contains("*/*") || value.contains("application/*");
        match accepted.find(|value| value.contains("text/event-stream") && !takes_json(value)) {
            None => Ok(Self),
            Some(_) => {
                Err(ApiError::not_supported("Accept", "output is not streamed; ask for application/json"))
            }
        }
    }
}
