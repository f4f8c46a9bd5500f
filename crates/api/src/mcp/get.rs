//! `GET /api/v1/mcp/servers/{id}`

use axum::Json;

use super::view::McpServer;
use crate::auth::Caller;
use crate::errors::ErrorCode::{FeatureDisabled, McpServerNotFound};
use crate::errors::{ApiError, PRIVATE, documented_errors};
use crate::extract::Granted;

documented_errors!(Errors: PRIVATE, &[FeatureDisabled, McpServerNotFound]);

/// Tells about a hosted MCP server.
#[utoipa::path(
    get,
    path = "/api/v1/mcp/servers/{id}",
    tag = "MCP servers",
    operation_id = "get_mcp_server",
    params(("id" = String, Path, description = "The server's name or id.")),
    responses((status = 200, description = "The server.", body = McpServer), Errors)
)]
pub(crate) async fn get(server: Granted, caller: Caller) -> Result<Json<McpServer>, ApiError> {
    let view = server.servers.get(&server.name).await?;
    Ok(Json(McpServer::shown(view, &caller)))
}
