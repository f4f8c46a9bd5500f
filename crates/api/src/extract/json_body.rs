//! A JSON body of bounded size, read within bounded time.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::{WHOLE, from_json};
use crate::auth::Caller;
use crate::errors::{ApiError, ErrorCode};
use crate::limits::bodies::Memory;

/// The largest body of a tool call, whose content it may be.
const MAX_BODY_BYTES: usize = 16 << 20;

/// The largest body of anything else. All that can be asked for fits in however it is written, and
/// a value of any shape (`metadata`) takes a multiple of what it is written with.
const MAX_SMALL_BODY_BYTES: usize = 2 << 20;

/// How long a body may take to arrive, and how long nothing of it may come.
const BODY_LIMIT: Duration = Duration::from_secs(60);
const STALL_LIMIT: Duration = Duration::from_secs(15);

/// The JSON body of a tool call, with the memory it takes: to be held as long as the body is.
pub(crate) struct JsonBody<T>(pub(crate) T, pub(crate) Memory);

/// The JSON body of a create, with what tells it from another one.
pub(crate) struct FingerprintedBody<T> {
    pub(crate) value: T,
    pub(crate) fingerprint: [u8; 32],
}

/// A JSON body that may be missing altogether.
pub(crate) struct OptionalJsonBody<T>(pub(crate) T);

/// The same, with what tells the request from another one: the body, and what it is asked of.
pub(crate) struct OptionalFingerprintedBody<T> {
    pub(crate) value: T,
    pub(crate) fingerprint: [u8; 32],
}

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        require_json(&parts.headers)?;
        let (bytes, memory) = read(&parts, body, MAX_BODY_BYTES).await?;
        Ok(Self(from_json(&bytes)?, memory))
    }
}

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for FingerprintedBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        require_json(&parts.headers)?;
        let (bytes, _memory) = read(&parts, body, MAX_SMALL_BODY_BYTES).await?;
        let value = from_json(&bytes)?;
        // Blanks and the order of fields do not make another request.
        let canonical: serde_json::Value = from_json(&bytes)?;
        let fingerprint = Sha256::digest(canonical.to_string()).into();
        Ok(Self { value, fingerprint })
    }
}

impl<S: Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalJsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let (bytes, _memory) = read(&parts, body, MAX_SMALL_BODY_BYTES).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        require_json(&parts.headers)?;
        from_json(&bytes).map(Self)
    }
}

impl<S: Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalFingerprintedBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let (bytes, _memory) = read(&parts, body, MAX_SMALL_BODY_BYTES).await?;
        let (value, canonical) = match bytes.is_empty() {
            // Nothing said is nothing said, however that is written.
            true => (T::default(), serde_json::json!({})),
            false => {
                require_json(&parts.headers)?;
                (from_json(&bytes)?, from_json(&bytes)?)
            }
        };
        let fingerprint = Sha256::digest(format!("{}\n{canonical}", parts.uri.path())).into();
        Ok(Self { value, fingerprint })
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

/// The whole body, with the memory it takes.
pub(crate) async fn read(
    parts: &Parts,
    mut body: Body,
    max_bytes: usize,
) -> Result<(Bytes, Memory), ApiError> {
    let encoding = parts.headers.get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(ApiError::new(
            ErrorCode::UnsupportedMediaType,
            "a compressed body is not taken: send it without `Content-Encoding`",
        ));
    }
    let declared =
        parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > max_bytes as u64) {
        return Err(too_large(max_bytes));
    }
    let mut memory = Memory::for_caller(parts.extensions.get::<Caller>());
    let deadline = Instant::now() + BODY_LIMIT;
    let mut whole = BytesMut::new();
    loop {
        let limit = deadline.min(Instant::now() + STALL_LIMIT);
        let frame = match tokio::time::timeout_at(limit, body.frame()).await {
            Ok(None) => return Ok((whole.freeze(), memory)),
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Err(ApiError::invalid(WHOLE, format!("cannot be read: {error}"))),
            Err(_) => {
                return Err(ApiError::new(
                    ErrorCode::RequestTimeout,
                    format!(
                        "the body did not arrive within {} seconds, or nothing came for {}",
                        BODY_LIMIT.as_secs(),
                        STALL_LIMIT.as_secs()
                    ),
                ));
            }
        };
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > max_bytes {
            return Err(too_large(max_bytes));
        }
        memory.grow(data.len())?;
        whole.extend_from_slice(&data);
    }
}

/// Answered without taking in any more of it; [`wire`](crate::wire) sees to it that whoever is
/// still sending can read the answer.
fn too_large(max_bytes: usize) -> ApiError {
    let message = format!("may have {max_bytes} bytes at most");
    ApiError::about(ErrorCode::PayloadTooLarge, WHOLE, message).detail("max_bytes", max_bytes)
}
