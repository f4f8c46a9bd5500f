//! `DELETE /api/v1/agent/workspaces/{id}`

use axum::Json;
use emergent_store::TokenKind;
use emergent_types::{ProviderKind, SnapshotId, WorkspaceId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::audit::{Operation, Summary};
use crate::auth::Caller;
use crate::errors::ErrorCode::{Forbidden, LimitReached, NotSupported, ProviderFailed, WorkspaceNotReady};
use crate::errors::{ApiError, PRIVATE, QUERY, WORKSPACE, documented_errors};
use crate::extract::{Query, WorkspacePath, Workspaces};

/// How to destroy it.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// Whether to take a snapshot first. Without one nothing is destroyed.
    snapshot: Option<bool>,
    /// Whether to forget it where its provider is not among this server's any more, so that nobody can tell what
    /// is left of it there. Administrators only; elsewhere it changes nothing.
    force: Option<bool>,
}

/// That a workspace is gone.
#[derive(Serialize, ToSchema)]
pub(crate) struct DestroyedWorkspace {
    /// Which.
    id: WorkspaceId,
    /// `destroyed`.
    #[schema(example = "destroyed")]
    status: &'static str,
    /// The snapshot that was taken first.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_id: Option<SnapshotId>,
    /// What is left of it, where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

documented_errors!(Errors: PRIVATE, QUERY, WORKSPACE, &[
    Forbidden, NotSupported, WorkspaceNotReady, LimitReached, ProviderFailed,
]);

/// Destroys a workspace with everything that is in it.
///
/// What runs in it gets SIGTERM and up to 10 seconds. Afterwards the id answers 404.
#[utoipa::path(
    delete,
    path = "/api/v1/agent/workspaces/{id}",
    tag = "workspaces",
    operation_id = "destroy_workspace",
    params(("id" = WorkspaceId, Path, description = "The workspace."), Parameters),
    responses((status = 200, description = "It is gone.", body = DestroyedWorkspace), Errors)
)]
pub(crate) async fn destroy(
    Workspaces(workspaces): Workspaces,
    WorkspacePath(id): WorkspacePath,
    caller: Caller,
    operation: Operation,
    Query(parameters): Query<Parameters>,
) -> Result<Json<DestroyedWorkspace>, ApiError> {
    let wants_snapshot = parameters.snapshot == Some(true);
    let is_forced = parameters.force == Some(true);
    if is_forced && caller.kind() != TokenKind::Admin {
        return Err(ApiError::about(Forbidden, "force", "only an administrator's token may force this"));
    }
    let missing = if is_forced { workspaces.missing_provider(id)? } else { None };
    let summary = Summary::default()
        .value("snapshot", wants_snapshot)
        .flag("force", is_forced)
        .maybe("left_with_provider", missing.map(ProviderKind::as_str));
    let record = operation.begin("destroy_workspace", Some(id), summary);
    let destroyed = async {
        let _turn = match wants_snapshot {
            true => Some(workspaces.turn_to_end(id).await),
            false => None,
        };
        let snapshot = match wants_snapshot {
            true => Some(workspaces.snapshot(id, None, Some(caller.id())).await?.id),
            false => None,
        };
        match is_forced {
            true => workspaces.destroy_forced(id).await?,
            false => workspaces.destroy(id).await?,
        }
        Ok::<_, ApiError>(snapshot)
    };
    let snapshot_id = record.end(destroyed.await)?;
    let warning = missing.map(|provider| {
        format!("this server does not have provider {provider}: what is left of the workspace there stays")
    });
    Ok(Json(DestroyedWorkspace { id, status: "destroyed", snapshot_id, warning }))
}
