//! `GET /api/v1/agent/workspaces/{id}/processes/{process_id}`

use axum::Json;
use emergent_agent_client::StreamKind;
use emergent_types::WorkspaceId;
use emergent_workspaces::ToolCall;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::output::{self, OutputPage};
use super::view::Process;
use crate::audit::Summary;
use crate::errors::ErrorCode::{self, ProcessNotFound};
use crate::errors::{ApiError, PRIVATE, QUERY, TOOL_CALL, WORKSPACE, documented_errors};
use crate::extract::{ProcessPath, Query, Tool};

/// Which part of the output.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// Where in standard output to begin; 0 where not said.
    stdout_offset: Option<u64>,
    /// Where in standard error to begin; 0 where not said.
    stderr_offset: Option<u64>,
}

/// A background process and what it has printed.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProcessWithOutput {
    #[serde(flatten)]
    process: Process,
    /// A page of its standard output.
    stdout: OutputPage,
    /// A page of its standard error.
    stderr: OutputPage,
}

documented_errors!(Errors: PRIVATE, QUERY, WORKSPACE, TOOL_CALL, &[ProcessNotFound]);

/// Tells a background process's state, with a page of what it has printed.
///
/// The last mebibyte of each stream is kept.
#[utoipa::path(
    get,
    path = "/api/v1/agent/workspaces/{id}/processes/{process_id}",
    tag = "processes",
    operation_id = "get_process",
    params(
        ("id" = WorkspaceId, Path, description = "The workspace."),
        ("process_id" = u64, Path, description = "The process."),
        Parameters,
    ),
    responses((status = 200, description = "The process.", body = ProcessWithOutput), Errors)
)]
pub(crate) async fn get(
    tool: Tool,
    ProcessPath(process_id): ProcessPath,
    Query(parameters): Query<Parameters>,
) -> Result<Json<ProcessWithOutput>, ApiError> {
    let call = tool.begin(Summary::default().value("process_id", process_id)).await?;
    let result = look(&call, process_id, &parameters).await;
    call.end(result.map(Json))
}

async fn look(
    call: &ToolCall,
    process_id: u64,
    parameters: &Parameters,
) -> Result<ProcessWithOutput, ApiError> {
    let process = call.list_processes().await?.into_iter().find(|process| process.process_id == process_id);
    let process = process.ok_or_else(|| {
        ApiError::new(ErrorCode::ProcessNotFound, format!("there is no background process {process_id}"))
    })?;
    let stdout = parameters.stdout_offset.unwrap_or(0);
    let stderr = parameters.stderr_offset.unwrap_or(0);
    Ok(ProcessWithOutput {
        process: process.into(),
        stdout: output::read(call, process_id, StreamKind::Stdout, stdout).await?,
        stderr: output::read(call, process_id, StreamKind::Stderr, stderr).await?,
    })
}
