//! Ids in a path.

use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use emergent_store::TokenId;
use emergent_types::{SnapshotId, WorkspaceId};

use crate::errors::{ApiError, ErrorCode};

/// The workspace that a path is about.
pub(crate) struct WorkspacePath(pub(crate) WorkspaceId);

/// The snapshot that a path is about.
pub(crate) struct SnapshotPath(pub(crate) SnapshotId);

/// The background process that a path is about.
pub(crate) struct ProcessPath(pub(crate) u64);

/// The port that a path is about.
pub(crate) struct PortPath(pub(crate) u16);

/// The token that a path is about, by its id.
pub(crate) struct TokenPath(pub(crate) TokenId);

impl<S: Send + Sync> FromRequestParts<S> for TokenPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = parameter(parts, state, "token_id").await?;
        // Not shown: whoever takes the token for its id would find it in an error.
        text.parse().map(Self).map_err(|_| {
            ApiError::new(
                ErrorCode::TokenNotFound,
                "a token of this id does not exist: expected the id, a UUID",
            )
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for WorkspacePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = parameter(parts, state, "id").await?;
        // What is not an id names no workspace: the answer is the same.
        text.parse().map(Self).map_err(|error| {
            let text: String = text.chars().take(64).collect();
            ApiError::new(ErrorCode::WorkspaceNotFound, format!("workspace {text:?} does not exist: {error}"))
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SnapshotPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = parameter(parts, state, "snapshot_id").await?;
        text.parse().map(Self).map_err(|error| {
            let text: String = text.chars().take(64).collect();
            ApiError::new(ErrorCode::SnapshotNotFound, format!("snapshot {text:?} does not exist: {error}"))
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ProcessPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = parameter(parts, state, "process_id").await?;
        number(&text).map(Self).ok_or_else(|| {
            let text: String = text.chars().take(64).collect();
            ApiError::new(ErrorCode::ProcessNotFound, format!("process {text:?} does not exist"))
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PortPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = parameter(parts, state, "port").await?;
        match number(&text) {
            Some(port @ 1..) => Ok(Self(port)),
            _ => Err(ApiError::invalid("port", "must be a number between 1 and 65535")),
        }
    }
}

/// A number that is written with digits alone.
fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

pub(super) async fn parameter<S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
    name: &str,
) -> Result<String, ApiError> {
    let parameters = RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|error| ApiError::invalid("path", error.to_string()))?;
    parameters
        .iter()
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value.to_owned())
        .ok_or_else(|| ApiError::internal(format!("the route has no parameter {name}")))
}
