//! `DELETE /api/v1/mcp/servers/{id}`

use axum::Json;
use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::audit::{Operation, Summary};
use crate::errors::ErrorCode::{FeatureDisabled, McpServerNotFound, ProviderFailed, WorkspaceNotReady};
use crate::errors::{ApiError, PRIVATE, QUERY, documented_errors};
use crate::extract::{Granted, Query};

/// What goes with it.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// Whether its volumes go as well, with everything in them; they stay where not said.
    volumes: Option<bool>,
}

/// That a server is gone.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeletedMcpServer {
    /// Which.
    id: WorkspaceId,
    /// Its name, which is free again.
    name: String,
    /// `deleted`.
    #[schema(example = "deleted")]
    status: &'static str,
}

documented_errors!(Errors: PRIVATE, QUERY, &[
    FeatureDisabled, McpServerNotFound, WorkspaceNotReady, ProviderFailed,
]);

/// Ends a server's program, and removes its sandbox and its registration.
///
/// The program gets SIGTERM and up to 10 seconds.
#[utoipa::path(
    delete,
    path = "/api/v1/mcp/servers/{id}",
    tag = "MCP servers",
    operation_id = "delete_mcp_server",
    params(("id" = String, Path, description = "The server's name or id."), Parameters),
    responses((status = 200, description = "It is gone.", body = DeletedMcpServer), Errors)
)]
pub(crate) async fn delete(
    server: Granted,
    operation: Operation,
    Query(parameters): Query<Parameters>,
) -> Result<Json<DeletedMcpServer>, ApiError> {
    let with_volumes = parameters.volumes == Some(true);
    let summary = Summary::default().text("server", &server.name).flag("volumes", with_volumes);
    let record = operation.begin("delete_mcp_server", Some(server.id), summary);
    record.end(server.servers.delete(&server.name, with_volumes).await.map_err(ApiError::from))?;
    Ok(Json(DeletedMcpServer { id: server.id, name: server.name, status: "deleted" }))
}
