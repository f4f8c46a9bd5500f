//! `/api/v1/mcp/servers/{id}/mcp`: one server, for MCP clients.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use emergent_mcp_bridge::front::Front;
use futures::{StreamExt, stream};
use http_body_util::BodyExt;
use utoipa::IntoResponses;
use utoipa::openapi::{ContentBuilder, ObjectBuilder, RefOr, ResponseBuilder};

use super::fronts::principal;
use super::whole_request::WholeRequest;
use crate::auth::Caller;
use crate::errors::ErrorCode::{FeatureDisabled, McpServerNotFound};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, to_responses};
use crate::extract::Granted;
use crate::observe::RequestId;
use crate::state::ApiState;

/// What a front itself answers that is no success.
const REFUSALS: [u16; 9] = [400, 404, 405, 406, 413, 415, 429, 500, 503];

/// The answers that are no success.
pub(crate) struct Errors;

impl IntoResponses for Errors {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let mut responses = to_responses(&[PRIVATE, JSON_BODY, &[FeatureDisabled, McpServerNotFound]]);
        for status in REFUSALS {
            let refusal = ResponseBuilder::new()
                .description(
                    "Refused, with an error of JSON-RPC; before a message is looked at, with one of the API.",
                )
                .content(
                    "application/json",
                    ContentBuilder::new().schema(Some(ObjectBuilder::new().build())).build(),
                );
            responses.insert(status.to_string(), refusal.build().into());
        }
        responses
    }
}

/// Takes a message of an MCP client.
///
/// Streamable HTTP: the protocol versions from 2024-11-05 to 2025-11-25 with sessions, and 2026-07-28 without.
/// Any MCP client that can send the token connects to this address.
#[utoipa::path(
    post,
    path = "/api/v1/mcp/servers/{id}/mcp",
    tag = "MCP servers",
    operation_id = "send_mcp_message",
    params(("id" = String, Path, description = "The server's name or id.")),
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
    server: Granted,
    caller: Caller,
    request: WholeRequest,
) -> Result<Response, ApiError> {
    serve(&state, state.mcp_fronts().of(&server.servers, server.id, &caller)?, &caller, request).await
}

/// Opens the stream of what a server says unasked, or resumes one that broke.
#[utoipa::path(
    get,
    path = "/api/v1/mcp/servers/{id}/mcp",
    tag = "MCP servers",
    operation_id = "listen_to_mcp_server",
    params(("id" = String, Path, description = "The server's name or id.")),
    responses(
        (status = 200, description = "Messages, as they come.",
            body = crate::streaming::ServerSentEvent, content_type = "text/event-stream"),
        Errors,
    )
)]
pub(crate) async fn listen(
    State(state): State<ApiState>,
    server: Granted,
    caller: Caller,
    request: WholeRequest,
) -> Result<Response, ApiError> {
    serve(&state, state.mcp_fronts().of(&server.servers, server.id, &caller)?, &caller, request).await
}

/// Ends a session of an MCP client.
#[utoipa::path(
    delete,
    path = "/api/v1/mcp/servers/{id}/mcp",
    tag = "MCP servers",
    operation_id = "end_mcp_session",
    params(("id" = String, Path, description = "The server's name or id.")),
    responses((status = 204, description = "It is over."), Errors)
)]
pub(crate) async fn end(
    State(state): State<ApiState>,
    server: Granted,
    caller: Caller,
    request: WholeRequest,
) -> Result<Response, ApiError> {
    serve(&state, state.mcp_fronts().of(&server.servers, server.id, &caller)?, &caller, request).await
}

/// Hands a request to a front. A stream ends when the server goes down: its client comes back to the next one.
pub(super) async fn serve(
    state: &ApiState,
    front: Front,
    caller: &Caller,
    WholeRequest(mut request, memory): WholeRequest,
) -> Result<Response, ApiError> {
    // Whatever the client named it: what is written down of a call has the same id as the answer.
    RequestId::name(&mut request);
    let response = front.serve(principal(caller), request).await;
    drop(memory);
    // What was opened while the token ended has missed that.
    if caller.is_over() {
        front.end_sessions_of(&principal(caller));
    }
    let closing = state.sockets().closing();
    Ok(response.map(|body| {
        if !body.is_events() {
            return Body::new(body);
        }
        let frames = body.into_data_stream().take_until(closing.cancelled_owned());
        Body::from_stream(stream::StreamExt::fuse(frames))
    }))
}
