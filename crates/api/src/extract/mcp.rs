//! Hosted MCP servers, and the one that a path names.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use emergent_mcp_hosting::Handle;
use emergent_types::WorkspaceId;

use super::ids::parameter;
use crate::auth::Caller;
use crate::errors::{ApiError, ErrorCode};
use crate::state::ApiState;

/// The hosted MCP servers of this installation, where workspaces are switched on.
pub(crate) struct McpServers(pub(crate) Handle);

/// The server that a path names, which the caller may know of. For everybody else it does not exist.
pub(crate) struct Granted {
    pub(crate) servers: Handle,
    pub(crate) id: WorkspaceId,
    pub(crate) name: String,
}

impl FromRequestParts<ApiState> for McpServers {
    type Rejection = ApiError;

    async fn from_request_parts(_: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        state.mcp_servers().cloned().map(Self).ok_or_else(ApiError::feature_disabled)
    }
}

impl FromRequestParts<ApiState> for Granted {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, ApiError> {
        let McpServers(servers) = McpServers::from_request_parts(parts, state).await?;
        let caller = Caller::from_request_parts(parts, state).await?;
        let asked = parameter(parts, state, "id").await?;
        let found = servers.find(&asked).filter(|(_, name)| caller.may_use_server(name));
        let (id, name) = found.ok_or_else(|| ApiError::mcp_server_not_found(&asked))?;
        Ok(Self { servers, id, name })
    }
}

impl ApiError {
    /// There is no such server.
    pub(crate) fn mcp_server_not_found(asked: &str) -> Self {
        let asked: String = asked.chars().take(64).collect();
        Self::new(ErrorCode::McpServerNotFound, format!("there is no MCP server {asked:?}"))
    }
}
