//! `POST /api/v1/mcp/servers/{id}/restart`

use axum::Json;

use super::view::McpServer;
use crate::audit::{Operation, Summary};
use crate::auth::Caller;
use crate::errors::ErrorCode::{FeatureDisabled, McpServerNotFound};
use crate::errors::{ApiError, PRIVATE, documented_errors};
use crate::extract::Granted;

documented_errors!(Errors: PRIVATE, &[FeatureDisabled, McpServerNotFound]);

/// Ends a server's program and starts it again.
///
/// The old one gets SIGTERM and up to 10 seconds. What was held against it is forgotten: the next start waits
/// for nothing.
#[utoipa::path(
    post,
    path = "/api/v1/mcp/servers/{id}/restart",
    tag = "MCP servers",
    operation_id = "restart_mcp_server",
    params(("id" = String, Path, description = "The server's name or id.")),
    responses((status = 200, description = "The server as it is now.", body = McpServer), Errors)
)]
pub(crate) async fn restart(
    server: Granted,
    caller: Caller,
    operation: Operation,
) -> Result<Json<McpServer>, ApiError> {
    let summary = Summary::default().text("server", &server.name);
    let record = operation.begin("restart_mcp_server", Some(server.id), summary);
    let view = record.end(server.servers.restart(&server.name).await.map_err(ApiError::from))?;
    Ok(Json(McpServer::shown(view, &caller)))
}
