//! `GET /api/v1/mcp/servers`

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use super::view::McpServer;
use crate::auth::Caller;
use crate::errors::ErrorCode::FeatureDisabled;
use crate::errors::{ApiError, PRIVATE, documented_errors};
use crate::extract::McpServers;

/// Hosted MCP servers.
#[derive(Serialize, ToSchema)]
pub(crate) struct McpServerList {
    /// Oldest first.
    items: Vec<McpServer>,
    /// Always null: there are few.
    #[schema(required = true)]
    next_cursor: Option<String>,
}

documented_errors!(Errors: PRIVATE, &[FeatureDisabled]);

/// Lists hosted MCP servers: all of them, or those that the token may use.
#[utoipa::path(
    get,
    path = "/api/v1/mcp/servers",
    tag = "MCP servers",
    operation_id = "list_mcp_servers",
    responses((status = 200, description = "Those that the token may know of.", body = McpServerList), Errors)
)]
pub(crate) async fn list(
    McpServers(servers): McpServers,
    caller: Caller,
) -> Result<Json<McpServerList>, ApiError> {
    let views = servers.list().await.into_iter().filter(|view| caller.may_use_server(&view.server.name));
    let items = views.map(|view| McpServer::shown(view, &caller)).collect();
    Ok(Json(McpServerList { items, next_cursor: None }))
}
