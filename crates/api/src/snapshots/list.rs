//! `GET /api/v1/agent/snapshots`

use axum::Json;
use emergent_store::SnapshotFilter;
use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::view::Snapshot;
use crate::auth::Caller;
use crate::errors::ErrorCode::FeatureDisabled;
use crate::errors::{ApiError, PRIVATE, QUERY, documented_errors};
use crate::extract::{Query, Workspaces, page};

/// Which, and how many.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// Only those of this workspace.
    workspace_id: Option<WorkspaceId>,
    /// How many at most: 1 to 500, else 50.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

/// A page of snapshots.
#[derive(Serialize, ToSchema)]
pub(crate) struct SnapshotList {
    /// Newest first.
    items: Vec<Snapshot>,
    /// Asks for the next page; null on the last one.
    #[schema(required = true)]
    next_cursor: Option<String>,
}

documented_errors!(Errors: PRIVATE, QUERY, &[FeatureDisabled]);

/// Lists snapshots, newest first. A `user` sees those it made.
#[utoipa::path(
    get,
    path = "/api/v1/agent/snapshots",
    tag = "snapshots",
    operation_id = "list_snapshots",
    params(Parameters),
    responses((status = 200, description = "A page.", body = SnapshotList), Errors)
)]
pub(crate) async fn list(
    Workspaces(workspaces): Workspaces,
    caller: Caller,
    Query(parameters): Query<Parameters>,
) -> Result<Json<SnapshotList>, ApiError> {
    let after = page::cursor(parameters.cursor.as_deref())?;
    let filter = SnapshotFilter { owner: caller.owner_filter(), workspace: parameters.workspace_id };
    let page = workspaces.list_snapshots(filter, after, page::limit(parameters.limit)?).await?;
    let (items, next_cursor) = page::shown(page);
    Ok(Json(SnapshotList { items, next_cursor }))
}
