//! A tool call: the one way from an endpoint to a workspace's agent.

use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use emergent_store::TokenKind;
use emergent_types::WorkspaceId;
use emergent_workspaces::{Handle, ToolCall};

use super::{WorkspacePath, Workspaces};
use crate::audit::{Audit, Call, Record, Summary};
use crate::auth::{AdmittedTool, Caller};
use crate::errors::{ApiError, ErrorCode};
use crate::limits::Place;
use crate::observe::RequestId;
use crate::state::ApiState;

/// A tool that the caller may use in the workspace of the path. What may be used is decided
/// before, by the table of access; here it is written down.
///
/// ```text
///   let call = tool.begin(Summary::default().text("command", &command)).await?;
///   let result = call.exec(…).await.map_err(ApiError::from);
///   call.end(result)
/// ```
///
/// What goes on behind the answer's head (a stream of events, a WebSocket) takes the
/// [`OpenCall`] with it.
pub(crate) struct Tool {
    workspaces: Handle,
    audit: Audit,
    caller: Caller,
    admitted: AdmittedTool,
    request_id: String,
    place: Option<Arc<Place>>,
}

impl FromRequestParts<ApiState> for Tool {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        let Workspaces(workspaces) = Workspaces::from_request_parts(parts, state).await?;
        let WorkspacePath(id) = WorkspacePath::from_request_parts(parts, state).await?;
        let caller = Caller::from_request_parts(parts, state).await?;
        let admitted = parts.extensions.get::<AdmittedTool>().copied();
        let admitted = admitted.filter(|admitted| admitted.workspace == id).ok_or_else(|| {
            ApiError::internal("an endpoint calls a tool and is not one in the table of access")
        })?;
        let request_id = RequestId::of(&parts.extensions);
        let place = parts.extensions.get::<Arc<Place>>().cloned();
        Ok(Self { workspaces, audit: state.audit().clone(), caller, admitted, request_id, place })
    }
}

impl Tool {
    /// Whether the caller may let the workspace have one more repository. A session works with those that it has.
    pub(crate) fn may_add_repositories(&self) -> bool {
        self.caller.kind() != TokenKind::Session
    }

    /// The workspace.
    pub(crate) fn workspace(&self) -> WorkspaceId {
        self.admitted.workspace
    }

    /// Begins the call and writes it down. A request that is not valid should be refused
    /// before: it calls nothing.
    pub(crate) async fn begin(self, summary: Summary) -> Result<OpenCall, ApiError> {
        let id = self.admitted.workspace;
        let record = self.audit.begin(Call {
            tool: self.admitted.name,
            workspace: Some(id),
            session: self.workspaces.session(id),
            caller: self.caller.id(),
            request_id: self.request_id,
            summary,
        });
        match self.workspaces.tool(id).await {
            Ok(call) => {
                let record = CallRecord { record, caller: self.caller, _place: self.place };
                Ok(OpenCall { workspaces: self.workspaces, call, record })
            }
            Err(error) => record.end(Err(error.into())),
        }
    }
}

/// A tool call that has begun. Dropping it cancels the call, and the audit log says so.
pub(crate) struct OpenCall {
    workspaces: Handle,
    call: ToolCall,
    record: CallRecord,
}

impl OpenCall {
    /// All workspaces, for what a call does to its own.
    pub(crate) fn workspaces(&self) -> &Handle {
        &self.workspaces
    }

    /// The call is over: notes what came of it, and passes it on.
    pub(crate) fn end<T>(self, result: Result<T, ApiError>) -> Result<T, ApiError> {
        self.record.end(result)
    }

    /// For what takes the call over and goes on behind the answer's head.
    pub(crate) fn split(self) -> (ToolCall, CallRecord) {
        (self.call, self.record)
    }
}

impl Deref for OpenCall {
    type Target = ToolCall;

    fn deref(&self) -> &ToolCall {
        &self.call
    }
}

/// What is written down of a call that goes on. Dropped, the call was cancelled.
pub(crate) struct CallRecord {
    record: Record,
    caller: Caller,
    /// A WebSocket outlives its request, and counts for as long as it does.
    _place: Option<Arc<Place>>,
}

impl CallRecord {
    /// The call is over: notes what came of it, and passes it on.
    pub(crate) fn end<T>(self, result: Result<T, ApiError>) -> Result<T, ApiError> {
        self.record.end(result)
    }

    /// The call is over: notes that it did what was asked, or why not.
    pub(crate) fn ended(self, failure: Option<ErrorCode>) {
        self.record.ended(failure);
    }

    /// Returns when the caller's token is revoked or its time is over. An answer's head and
    /// body end by themselves then; a WebSocket must watch this.
    pub(crate) async fn token_ended(&self) {
        self.caller.ended().await;
    }
}
