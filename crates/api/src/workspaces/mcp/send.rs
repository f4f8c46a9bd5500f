//! `POST /api/v1/agent/workspaces/{id}/mcp`: a workspace, for MCP clients.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use emergent_types::WorkspaceId;
use futures::{StreamExt, stream};
use http_body_util::{BodyExt, Full, Limited};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;

use super::server::WorkspaceServer;
use super::toolbox::Toolbox;
use crate::auth::Caller;
use crate::errors::ApiError;
use crate::extract::{WorkspacePath, Workspaces};
use crate::mcp::{Refusals, WholeRequest};
use crate::observe::RequestId;
use crate::state::ApiState;

/// How much of a refusal is passed on.
const MAX_REFUSAL_BYTES: usize = 64 * 1024;

/// Takes a message of an MCP client that works in a workspace.
///
/// The tools `bash`, `read`, `write`, `edit`, `glob`, `grep` and `git` with the arguments and the answers of
/// their own endpoints, as far as the token may use them. Streamable HTTP without sessions, in the protocol
/// versions from 2024-11-05 to 2026-07-28; a call whose stream is closed is cancelled.
#[utoipa::path(
    post,
    path = "/api/v1/agent/workspaces/{id}/mcp",
    tag = "tools",
    operation_id = "send_workspace_mcp_message",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    request_body(content = Object, description = "One message of JSON-RPC 2.0."),
    responses(
        (status = 200, description = "The answer, or a stream that has it.", content(
            (Object = "application/json"),
            (crate::streaming::ServerSentEvent = "text/event-stream"),
        )),
        (status = 202, description = "Taken; there is nothing to answer."),
        Refusals,
    )
)]
pub(crate) async fn send(
    State(state): State<ApiState>,
    Extension(toolbox): Extension<Toolbox>,
    Extension(request_id): Extension<RequestId>,
    Workspaces(workspaces): Workspaces,
    WorkspacePath(workspace): WorkspacePath,
    caller: Caller,
    WholeRequest(request, memory): WholeRequest,
) -> Result<Response, ApiError> {
    // Whoever sees all workspaces is let in by the wall for one that is none, too.
    if workspaces.owner(workspace).is_none() {
        return Err(ApiError::workspace_not_found(workspace));
    }
    let server = move || {
        Ok(WorkspaceServer {
            toolbox: toolbox.clone(),
            workspace,
            caller: caller.clone(),
            request_id: request_id.clone(),
        })
    };
    // Host and Origin are checked by the wall in front of all endpoints, the size by whoever reads the body.
    // There is nothing to remember between two requests, so there are no sessions.
    let closing = state.sockets().closing();
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_legacy_session_mode(false)
        .with_max_request_body_bytes(usize::MAX)
        .with_cancellation_token(closing.child_token());
    let service = StreamableHttpService::new(server, Arc::new(NeverSessionManager::default()), config);
    let response = service.handle(request.map(Full::new)).await;
    drop(memory);
    if !response.status().is_success() {
        return Ok(refusal(response.map(Body::new)).await);
    }
    Ok(response.map(|body| {
        // A stream ends when the server goes down.
        let pieces = body.into_data_stream().take_until(closing.cancelled_owned());
        Body::from_stream(stream::StreamExt::fuse(pieces))
    }))
}

/// A refusal as an error of JSON-RPC, whatever it was.
async fn refusal(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let text = match Limited::new(body, MAX_REFUSAL_BYTES).collect().await {
        Ok(text) => text.to_bytes(),
        Err(_) => "the message was refused".into(),
    };
    let is_error =
        serde_json::from_slice::<serde_json::Value>(&text).is_ok_and(|value| value["error"].is_object());
    let body = if is_error {
        Body::from(text)
    } else {
        let message = String::from_utf8_lossy(&text);
        Body::from(
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": message}}).to_string(),
        )
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Response::from_parts(parts, body)
}
