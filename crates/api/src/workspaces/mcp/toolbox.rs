//! Calls the endpoints of tools from within: the same checks, limits and audit entries as from outside.

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::{Router, routing};
use emergent_types::WorkspaceId;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use crate::auth::{self, Caller};
use crate::observe::RequestId;
use crate::state::ApiState;
use crate::workspaces::{bash, edit, git, glob, grep, read, write};

/// The tools that MCP clients are offered: those of the contract.
pub(super) const TOOLS: [&str; 7] = ["bash", "read", "write", "edit", "glob", "grep", "git"];

/// The endpoints of tools, behind the same wall. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Toolbox(Router);

/// What an endpoint answered.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

impl Toolbox {
    pub(crate) fn new(state: &ApiState) -> Self {
        let router = Router::new()
            .route(&route("bash"), routing::post(bash::bash))
            .route(&route("read"), routing::post(read::read))
            .route(&route("write"), routing::post(write::write))
            .route(&route("edit"), routing::post(edit::edit))
            .route(&route("glob"), routing::post(glob::glob))
            .route(&route("grep"), routing::post(grep::grep))
            .route(&route("git"), routing::post(git::git))
            .layer(from_fn_with_state(state.clone(), auth::admit_known))
            .with_state(state.clone());
        Self(router)
    }

    /// Calls a tool for somebody who was let in already. Dropping it cancels the call.
    pub(super) async fn call(
        &self,
        tool: &str,
        workspace: WorkspaceId,
        (caller, request_id): (Caller, RequestId),
        arguments: Vec<u8>,
    ) -> Result<Answer, String> {
        let mut request = Request::new(Body::from(arguments));
        *request.method_mut() = Method::POST;
        let path = format!("/api/v1/agent/workspaces/{workspace}/{tool}");
        *request.uri_mut() = path.parse().map_err(|error| format!("{path}: {error}"))?;
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::CONTENT_TYPE, json.clone());
        request.headers_mut().insert(header::ACCEPT, json);
        request.extensions_mut().insert(caller);
        request.extensions_mut().insert(request_id);
        let Ok(response) = self.0.clone().oneshot(request).await;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| error.to_string())?;
        Ok(Answer { status, body: body.to_bytes() })
    }
}

/// The route of a tool, as in the table of access.
pub(super) fn route(tool: &str) -> String {
    format!("/api/v1/agent/workspaces/{{id}}/{tool}")
}
