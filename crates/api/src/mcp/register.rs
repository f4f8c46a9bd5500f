//! `POST /api/v1/mcp/servers`

use axum::Json;
use axum::http::StatusCode;

use super::register_request::RegisterMcpServer;
use super::view::McpServer;
use crate::audit::{Operation, Summary};
use crate::auth::Caller;
use crate::errors::ErrorCode::{
    FeatureDisabled, ImageNotFound, LimitReached, McpServerExists, NoProviderAvailable, NotEnforceable,
    ProviderDisabled,
};
use crate::errors::{ApiError, JSON_BODY, PRIVATE, documented_errors};
use crate::extract::{JsonBody, McpServers};

documented_errors!(Errors: PRIVATE, JSON_BODY, &[
    FeatureDisabled, NotEnforceable, ProviderDisabled, ImageNotFound, McpServerExists, LimitReached,
    NoProviderAvailable,
]);

/// Registers an MCP server, makes its sandbox and starts its program.
///
/// Answers when the program is ready or has failed, after ten seconds at the latest; `health` tells. From now
/// on it runs until it is deleted, over restarts of this server.
#[utoipa::path(
    post,
    path = "/api/v1/mcp/servers",
    tag = "MCP servers",
    operation_id = "register_mcp_server",
    request_body = RegisterMcpServer,
    responses((status = 201, description = "It is registered.", body = McpServer), Errors)
)]
pub(crate) async fn register(
    McpServers(servers): McpServers,
    caller: Caller,
    operation: Operation,
    JsonBody(request, _): JsonBody<RegisterMcpServer>,
) -> Result<(StatusCode, Json<McpServer>), ApiError> {
    let registration = emergent_mcp_hosting::Registration::from(request);
    let summary = Summary::default()
        .maybe("server", registration.name.as_deref())
        .maybe("image", registration.image.as_deref())
        .list("environment", registration.environment.keys().map(String::as_str));
    let mut record = operation.begin("register_mcp_server", None, summary);
    let registered = servers.register(registration).await;
    if let Ok(view) = &registered {
        record.about(view.server.id);
    }
    let view = record.end(registered.map_err(ApiError::from))?;
    Ok((StatusCode::CREATED, Json(McpServer::shown(view, &caller))))
}
