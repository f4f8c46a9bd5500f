//! `GET /api/v1/agent/workspaces/{id}/processes`

use axum::Json;
use emergent_types::WorkspaceId;
use serde::Serialize;
use utoipa::ToSchema;

use super::view::Process;
use crate::audit::Summary;
use crate::errors::{ApiError, PRIVATE, TOOL_CALL, WORKSPACE, documented_errors};
use crate::extract::Tool;

/// Background processes.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProcessList {
    /// Those that run, and the last ones that have ended.
    items: Vec<Process>,
    /// Always null: this is all of them.
    #[schema(required = true)]
    next_cursor: Option<String>,
}

documented_errors!(Errors: PRIVATE, WORKSPACE, TOOL_CALL);

/// Lists a workspace's background processes.
#[utoipa::path(
    get,
    path = "/api/v1/agent/workspaces/{id}/processes",
    tag = "processes",
    operation_id = "list_processes",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    responses((status = 200, description = "The processes.", body = ProcessList), Errors)
)]
pub(crate) async fn list(tool: Tool) -> Result<Json<ProcessList>, ApiError> {
    let call = tool.begin(Summary::default()).await?;
    let result = call.list_processes().await;
    let processes = call.end(result.map_err(ApiError::from))?;
    Ok(Json(ProcessList { items: processes.into_iter().map(Process::from).collect(), next_cursor: None }))
}
