//! `PATCH /api/v1/mcp/servers/{id}`

use std::collections::BTreeMap;

use axum::Json;
use emergent_mcp_hosting::Update;
use emergent_types::{RestartPolicy, ServerMode};
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

use super::view::McpServer;
use crate::audit::{Operation, Summary};
use crate::auth::Caller;
use crate::errors::ErrorCode::{FeatureDisabled, McpServerNotFound};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, documented_errors};
use crate::extract::{Granted, JsonBody};

/// What is to be different; what is left out stays. What a sandbox is made of cannot change: delete the server
/// and register another.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpdateMcpServer {
    /// The program and its arguments; null is what the image's author wants to be run.
    #[serde(default, deserialize_with = "named")]
    #[schema(value_type = Option<Vec<String>>)]
    command: Option<Option<Vec<String>>>,
    /// What happens when its program ends.
    restart_policy: Option<RestartPolicy>,
    /// Who shares its program.
    mode: Option<ServerMode>,
    /// One call at a time.
    serialize: Option<bool>,
    /// The only tools that may be used; null is all.
    #[serde(default, deserialize_with = "named")]
    #[schema(value_type = Option<Vec<String>>)]
    tools_allow: Option<Option<Vec<String>>>,
    /// The tools that may not be used.
    tools_deny: Option<Vec<String>>,
    /// How long a call may take.
    #[schema(minimum = 1, maximum = 3_600_000)]
    call_timeout_ms: Option<u64>,
    /// Where it listens, if it has no stdio bridge.
    #[schema(minimum = 1, maximum = 65535)]
    port: Option<u64>,
    /// Where it is spoken to there.
    path: Option<String>,
    /// Every environment variable of its program.
    environment: Option<BTreeMap<String, String>>,
}

/// Tells a null from what is not there.
fn named<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(value).map(Some)
}

documented_errors!(Errors: PRIVATE, JSON_BODY, &[FeatureDisabled, McpServerNotFound]);

/// Changes how a server is run. Its program is restarted where it has to be.
#[utoipa::path(
    patch,
    path = "/api/v1/mcp/servers/{id}",
    tag = "MCP servers",
    operation_id = "update_mcp_server",
    params(("id" = String, Path, description = "The server's name or id.")),
    request_body = UpdateMcpServer,
    responses((status = 200, description = "The server as it is now.", body = McpServer), Errors)
)]
pub(crate) async fn update(
    server: Granted,
    caller: Caller,
    operation: Operation,
    JsonBody(request, _): JsonBody<UpdateMcpServer>,
) -> Result<Json<McpServer>, ApiError> {
    let update = Update {
        command: request.command,
        restart_policy: request.restart_policy,
        mode: request.mode,
        serialize: request.serialize,
        tools_allow: request.tools_allow,
        tools_deny: request.tools_deny,
        call_timeout_ms: request.call_timeout_ms,
        port: request.port,
        path: request.path,
        environment: request.environment,
    };
    let record = operation.begin(
        "update_mcp_server",
        Some(server.id),
        Summary::default().text("server", &server.name),
    );
    let view = record.end(server.servers.update(&server.name, update).await.map_err(ApiError::from))?;
    Ok(Json(McpServer::shown(view, &caller)))
}
