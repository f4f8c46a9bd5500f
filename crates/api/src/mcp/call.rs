//! `POST /api/v1/mcp/servers/{id}/call`

use std::time::Duration;

use axum::Json;
use emergent_mcp_bridge::{RawJson, Reply};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::audit::{Operation, Summary};
use crate::errors::ErrorCode::{
    FeatureDisabled, McpAnswerUnusable, McpServerEnded, McpServerNotFound, McpServerUnavailable,
    McpToolNotAllowed, Timeout, TooMany,
};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, documented_errors};
use crate::extract::{Granted, JsonBody};

/// The longest that a call may wait: an hour.
const MAX_TIMEOUT_MS: u64 = 60 * 60 * 1000;

/// A request to a server.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallMcpServer {
    /// The method, such as `tools/call`.
    #[schema(example = "tools/call")]
    method: String,
    /// Its parameters, as the server gets them.
    #[schema(value_type = Option<Object>)]
    params: Option<Box<RawValue>>,
    /// How long to wait; the server's `call_timeout_ms` where not said.
    #[schema(minimum = 1, maximum = 3_600_000)]
    timeout_ms: Option<u64>,
}

/// What a server answered: `result` or `error`, as it sent them.
#[derive(Serialize, ToSchema)]
pub(crate) struct McpAnswer {
    /// What came of it; null where there is an error.
    #[schema(required = true, value_type = Option<Object>)]
    result: Option<Box<RawValue>>,
    /// The server's own error: `code`, `message` and perhaps `data`.
    #[schema(required = true, value_type = Option<Object>)]
    error: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct NamedTool {
    name: String,
}

documented_errors!(Errors: PRIVATE, JSON_BODY, &[
    FeatureDisabled, McpServerNotFound, McpToolNotAllowed, McpServerUnavailable, McpServerEnded,
    McpAnswerUnusable, Timeout, TooMany,
]);

/// Sends one request to a server over its bridge, and waits for the answer.
///
/// An error that the server itself answers is an answer (200 with `error`). A call that takes too long is
/// given up (504): the server goes on, and its late answer reaches nobody. When the program ends meanwhile the
/// call fails at once (502), and is not repeated.
#[utoipa::path(
    post,
    path = "/api/v1/mcp/servers/{id}/call",
    tag = "MCP servers",
    operation_id = "call_mcp_server",
    params(("id" = String, Path, description = "The server's name or id.")),
    request_body = CallMcpServer,
    responses((status = 200, description = "What the server answered.", body = McpAnswer), Errors)
)]
pub(crate) async fn call(
    server: Granted,
    operation: Operation,
    JsonBody(request, _memory): JsonBody<CallMcpServer>,
) -> Result<Json<McpAnswer>, ApiError> {
    let timeout = request.timeout_ms.map(timeout).transpose()?;
    let params = request.params.as_deref().map(params).transpose()?;
    let tool = match request.method.as_str() {
        "tools/call" => request.params.as_deref().and_then(tool),
        _ => None,
    };
    let summary = Summary::default()
        .text("server", &server.name)
        .text("method", &request.method)
        .maybe("tool", tool.as_deref());
    let record = operation.begin("mcp_call", Some(server.id), summary);
    let answer = server.servers.call(&server.name, &request.method, params, timeout).await;
    let answer = answer.map_err(ApiError::from).and_then(|reply| match reply {
        Reply::Result(result) => Ok(McpAnswer { result: Some(raw(result)?), error: None }),
        Reply::Error(error) => Ok(McpAnswer { result: None, error: Some(raw(error)?) }),
    });
    record.end(answer).map(Json)
}

fn timeout(millis: u64) -> Result<Duration, ApiError> {
    match millis {
        1..=MAX_TIMEOUT_MS => Ok(Duration::from_millis(millis)),
        _ => Err(ApiError::invalid(
            "timeout_ms",
            format!("must be between 1 and {MAX_TIMEOUT_MS}, not {millis}"),
        )),
    }
}

/// The parameters, with the bytes they came with.
fn params(raw: &RawValue) -> Result<RawJson, ApiError> {
    if !raw.get().trim_start().starts_with('{') {
        return Err(ApiError::invalid("params", "must be an object"));
    }
    RawJson::parse(raw.get()).map_err(|error| ApiError::invalid("params", error.to_string()))
}

/// The tool that is called, for the audit log. Its arguments are not looked at.
fn tool(params: &RawValue) -> Option<String> {
    serde_json::from_str::<NamedTool>(params.get()).ok().map(|tool| tool.name)
}

fn raw(json: RawJson) -> Result<Box<RawValue>, ApiError> {
    RawValue::from_string(json.as_str().to_owned()).map_err(|error| ApiError::internal(error.to_string()))
}
