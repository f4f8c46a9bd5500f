//! A JSON body of bounded size, read within bounded time.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use super::{WHOLE, from_json};
use crate::errors::{ApiError, ErrorCode};

/// The largest body.
const MAX_BODY_BYTES: usize = 16 << 20;

/// How long a body may take to arrive.
const BODY_LIMIT: Duration = Duration::from_secs(60);

/// How much of a body that is too large is taken in, and for how long.
const DISCARD_BYTES: usize = 4 * MAX_BODY_BYTES;
const DISCARD_LIMIT: Duration = Duration::from_secs(5);

/// A JSON body.
pub(crate) struct JsonBody<T>(pub(crate) T);

/// A JSON body that may be missing altogether.
pub(crate) struct OptionalJsonBody<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        require_json(&parts.headers)?;
        from_json(&read(&parts.headers, body).await?).map(Self)
    }
}

impl<S: Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalJsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = read(&parts.headers, body).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        require_json(&parts.headers)?;
        from_json(&bytes).map(Self)
    }
}

fn require_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let declared =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = declared.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorCode::UnsupportedMediaType,
        "the body must be JSON and say so: send `Content-Type: application/json`",
    ))
}

async fn read(headers: &HeaderMap, mut body: Body) -> Result<Bytes, ApiError> {
    let declared =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > MAX_BODY_BYTES as u64) {
        return Err(too_large(body).await);
    }
    let whole = Limited::new(&mut body, MAX_BODY_BYTES).collect();
    match tokio::time::timeout(BODY_LIMIT, whole).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(body).await),
        Ok(Err(error)) => Err(ApiError::invalid(WHOLE, format!("cannot be read: {error}"))),
        Err(_) => Err(ApiError::new(
            ErrorCode::RequestTimeout,
            format!("the body did not arrive within {} seconds", BODY_LIMIT.as_secs()),
        )),
    }
}

/// Takes in a good part of what is still to come before it answers: a client that is busy
/// sending when the connection closes never sees why.
async fn too_large(mut body: Body) -> ApiError {
    let mut left = DISCARD_BYTES;
    let discard = async {
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                return;
            }
        }
    };
    // Whichever way it ends, the answer is the same.
    let _ = tokio::time::timeout(DISCARD_LIMIT, discard).await;
    ApiError::new(ErrorCode::PayloadTooLarge, format!("a body may have {MAX_BODY_BYTES} bytes at most"))
        .detail("max_bytes", MAX_BODY_BYTES)
}
