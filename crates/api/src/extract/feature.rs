//! The part of the product that an administrator can switch off.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use emergent_workspaces::Handle;

use crate::errors::{ApiError, ErrorCode};
use crate::state::ApiState;

/// The workspaces of this installation, where they are switched on.
pub(crate) struct Workspaces(pub(crate) Handle);

impl FromRequestParts<ApiState> for Workspaces {
    type Rejection = ApiError;

    async fn from_request_parts(_: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        state.workspaces().cloned().map(Self).ok_or_else(ApiError::feature_disabled)
    }
}

impl ApiError {
    /// Workspaces are switched off.
    pub(crate) fn feature_disabled() -> Self {
        Self::new(
            ErrorCode::FeatureDisabled,
            "workspaces are switched off on this server (ENABLE_AGENT_WORKSPACES=false)",
        )
    }
}
