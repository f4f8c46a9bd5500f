//! What is done to workspaces and tokens, as opposed to in them.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use emergent_types::WorkspaceId;
use emergent_workspaces::Handle;

use super::{Audit, Call, Record, Summary};
use crate::auth::Caller;
use crate::errors::ApiError;
use crate::observe::RequestId;
use crate::state::ApiState;

/// An operation that is about to be written down.
pub(crate) struct Operation {
    audit: Audit,
    workspaces: Option<Handle>,
    caller: Caller,
    request_id: String,
}

impl FromRequestParts<ApiState> for Operation {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, state).await?;
        Ok(Self {
            audit: state.audit().clone(),
            workspaces: state.workspaces().cloned(),
            caller,
            request_id: RequestId::of(&parts.extensions),
        })
    }
}

impl Operation {
    /// Writes down that it begins.
    pub(crate) fn begin(
        self,
        name: &'static str,
        workspace: Option<WorkspaceId>,
        summary: Summary,
    ) -> Record {
        let session = workspace.and_then(|id| self.workspaces.as_ref()?.session(id));
        self.audit.begin(Call {
            tool: name,
            workspace,
            session,
            caller: self.caller.id(),
            request_id: self.request_id,
            summary,
        })
    }
}
