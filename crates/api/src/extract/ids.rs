//! Ids in a path.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use emergent_types::WorkspaceId;

use crate::errors::{ApiError, ErrorCode};

/// The workspace that a path is about.
pub(crate) struct WorkspacePath(pub(crate) WorkspaceId);

/// The background process that a path is about.
pub(crate) struct ProcessPath(pub(crate) u64);

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

impl<S: Send + Sync> FromRequestParts<S> for ProcessPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = parameter(parts, state, "process_id").await?;
        text.parse().map(Self).map_err(|_| {
            let text: String = text.chars().take(64).collect();
            ApiError::new(ErrorCode::ProcessNotFound, format!("process {text:?} does not exist"))
        })
    }
}

async fn parameter<S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Result<String, ApiError> {
    let parameters = RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|error| ApiError::invalid("path", error.to_string()))?;
    parameters
        .iter()
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value.to_owned())
        .ok_or_else(|| ApiError::internal(format!("the route has no parameter {name}")))
}
