//! `/api/v1/mcp`: the tools of all servers that a token may use, for MCP clients.

use axum::extract::State;
use axum::response::Response;

use super::endpoint::{Errors, serve};
use super::whole_request::WholeRequest;
use crate::auth::Caller;
use crate::errors::ApiError;
use crate::extract::McpServers;
use crate::state::ApiState;

/// Takes a message of an MCP client that uses several servers as one.
///
/// It offers the tools of all hosted servers that the token may use, each named `server__tool`. Prompts and
/// resources are at each server's own address.
#[utoipa::path(
    post,
    path = "/api/v1/mcp",
    tag = "MCP servers",
    operation_id = "send_combined_mcp_message",
    request_body(content = Object, description = "One message of JSON-RPC 2.0."),
    responses(
        (status = 200, description = "The answer, or a stream that has it.", content(
            (Object = "application/json"),
            (crate::streaming::ServerSentEvent = "text/event-stream"),
        )),
        (status = 202, description = "Taken; there is nothing to answer."),
        Errors,
    )
)]
pub(crate) async fn send(
    State(state): State<ApiState>,
    McpServers(servers): McpServers,
    caller: Caller,
    request: WholeRequest,
) -> Result<Response, ApiError> {
    serve(&state, state.mcp_fronts().combined(&servers, &caller), &caller, request).await
}

/// Opens the stream of what the servers say unasked, or resumes one that broke.
#[utoipa::path(
    get,
    path = "/api/v1/mcp",
    tag = "MCP servers",
    operation_id = "listen_to_mcp_servers",
    responses(
        (status = 200, description = "Messages, as they come.",
            body = crate::streaming::ServerSentEvent, content_type = "text/event-stream"),
        Errors,
    )
)]
pub(crate) async fn listen(
    State(state): State<ApiState>,
    McpServers(servers): McpServers,
    caller: Caller,
    request: WholeRequest,
) -> Result<Response, ApiError> {
    serve(&state, state.mcp_fronts().combined(&servers, &caller), &caller, request).await
}

/// Ends a session of an MCP client.
#[utoipa::path(
    delete,
    path = "/api/v1/mcp",
    tag = "MCP servers",
    operation_id = "end_combined_mcp_session",
    responses((status = 204, description = "It is over."), Errors)
)]
pub(crate) async fn end(
    State(state): State<ApiState>,
    McpServers(servers): McpServers,
    caller: Caller,
    request: WholeRequest,
) -> Result<Response, ApiError> {
    serve(&state, state.mcp_fronts().combined(&servers, &caller), &caller, request).await
}
