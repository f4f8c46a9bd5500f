//! `DELETE /api/v1/agent/workspaces/{id}/processes/{process_id}`

use axum::Json;
use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::signal_name::Signal;
use crate::audit::Summary;
use crate::errors::ErrorCode::ProcessNotFound;
use crate::errors::{ApiError, PRIVATE, QUERY, TOOL_CALL, WORKSPACE, documented_errors};
use crate::extract::{ProcessPath, Query, Tool};

/// Which signal.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// A name (`TERM`, `SIGKILL`) or a number; TERM where not said.
    #[param(value_type = Option<String>)]
    signal: Option<Signal>,
}

/// Who got a signal.
#[derive(Serialize, ToSchema)]
pub(crate) struct SignalledProcess {
    /// The process.
    process_id: u64,
    /// The signal.
    #[schema(example = "SIGTERM")]
    signal: String,
    /// How many processes got it; 0 where all had ended.
    delivered: u32,
}

documented_errors!(Errors: PRIVATE, QUERY, WORKSPACE, TOOL_CALL, &[ProcessNotFound]);

/// Signals a background process with everything it started.
///
/// It stays in the list when it has ended, with its exit code and its output.
#[utoipa::path(
    delete,
    path = "/api/v1/agent/workspaces/{id}/processes/{process_id}",
    tag = "processes",
    operation_id = "signal_process",
    params(
        ("id" = WorkspaceId, Path, description = "The workspace."),
        ("process_id" = u64, Path, description = "The process."),
        Parameters,
    ),
    responses((status = 200, description = "It was sent.", body = SignalledProcess), Errors)
)]
pub(crate) async fn signal(
    tool: Tool,
    ProcessPath(process_id): ProcessPath,
    Query(parameters): Query<Parameters>,
) -> Result<Json<SignalledProcess>, ApiError> {
    let signal = parameters.signal.unwrap_or(Signal::TERM);
    let summary = Summary::default().value("process_id", process_id).text("signal", &signal.to_string());
    let call = tool.begin(summary).await?;
    let result = call.signal_process(process_id, signal.number()).await;
    let delivered = call.end(result.map_err(ApiError::from))?;
    Ok(Json(SignalledProcess { process_id, signal: signal.to_string(), delivered }))
}
