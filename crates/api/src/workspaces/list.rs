//! `GET /api/v1/agent/workspaces`

use axum::Json;
use emergent_store::{TokenId, WorkspaceFilter};
use emergent_types::{ContainerType, ProviderKind, WorkspaceStatus};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::view::Workspace;
use crate::auth::Caller;
use crate::errors::ErrorCode::FeatureDisabled;
use crate::errors::{ApiError, PRIVATE, QUERY, documented_errors};
use crate::extract::{Query, Workspaces, page};

/// Which workspaces, and how many.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Parameters {
    /// Only those in this state.
    status: Option<WorkspaceStatus>,
    /// Only those of this type.
    container_type: Option<ContainerType>,
    /// Only those of this provider.
    provider: Option<ProviderKind>,
    /// How many at most: 1 to 500, else 50.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

impl Parameters {
    fn filter(&self, owner: Option<TokenId>) -> WorkspaceFilter {
        WorkspaceFilter {
            status: self.status,
            container_type: self.container_type,
            provider: self.provider,
            owner,
        }
    }
}

/// A page of workspaces.
#[derive(Serialize, ToSchema)]
pub(crate) struct WorkspaceList {
    /// Newest first.
    items: Vec<Workspace>,
    /// Asks for the next page; null on the last one.
    #[schema(required = true)]
    next_cursor: Option<String>,
}

documented_errors!(Errors: PRIVATE, QUERY, &[FeatureDisabled]);

/// Lists workspaces, newest first. A `user` token sees its own.
#[utoipa::path(
    get,
    path = "/api/v1/agent/workspaces",
    tag = "workspaces",
    operation_id = "list_workspaces",
    params(Parameters),
    responses((status = 200, description = "A page.", body = WorkspaceList), Errors)
)]
pub(crate) async fn list(
    Workspaces(workspaces): Workspaces,
    caller: Caller,
    Query(parameters): Query<Parameters>,
) -> Result<Json<WorkspaceList>, ApiError> {
    let after = page::cursor(parameters.cursor.as_deref())?;
    let limit = page::limit(parameters.limit)?;
    let page = workspaces.list(parameters.filter(caller.owner_filter()), after, limit).await?;
    let (items, next_cursor) = page::shown(page);
    Ok(Json(WorkspaceList { items, next_cursor }))
}
