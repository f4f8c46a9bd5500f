//! `/api/v1/settings/git-hosts`: tokens for git hosts that are not GitHub.

pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod put;
mod view;

use emergent_checkout::{Handle, Origin};

use crate::errors::ApiError;
use crate::state::ApiState;

fn checkout(state: &ApiState) -> Result<&Handle, ApiError> {
    state.checkout().ok_or_else(|| ApiError::not_supported("host", "this server checks out no repositories"))
}

fn origin(text: &str) -> Result<Origin, ApiError> {
    let invalid = |error: emergent_checkout::ParseOriginError| ApiError::invalid("host", error.to_string());
    text.parse().map_err(invalid)
}
