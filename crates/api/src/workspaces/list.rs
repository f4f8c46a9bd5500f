//! `GET /api/v1/agent/workspaces`

use std::num::NonZeroU32;

use axum::Json;
use emergent_store::{WorkspaceCursor, WorkspaceFilter};
use emergent_types::{ContainerType, ProviderKind, WorkspaceStatus};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::view::Workspace;
use crate::errors::ErrorCode::FeatureDisabled;
use crate::errors::{ApiError, PRIVATE, QUERY, documented_errors};
use crate::extract::{Query, Workspaces};

/// The page where a request names no size.
const DEFAULT_LIMIT: u32 = 50;

/// The largest page.
const MAX_LIMIT: u32 = 500;

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
    fn limit(&self) -> Result<NonZeroU32, ApiError> {
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT);
        NonZeroU32::new(limit).filter(|limit| limit.get() <= MAX_LIMIT).ok_or_else(|| {
            ApiError::invalid("limit", format!("must be between 1 and {MAX_LIMIT}, not {limit}"))
        })
    }

    fn cursor(&self) -> Result<Option<WorkspaceCursor>, ApiError> {
        let parse = |text: &String| {
            text.parse().map_err(|_| {
                ApiError::invalid("cursor", "not a cursor: expected the next_cursor of an earlier page")
            })
        };
        self.cursor.as_ref().map(parse).transpose()
    }

    fn filter(&self) -> WorkspaceFilter {
        WorkspaceFilter {
            status: self.status,
            container_type: self.container_type,
            provider: self.provider,
            owner: None,
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

/// Lists workspaces, newest first.
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
    Query(parameters): Query<Parameters>,
) -> Result<Json<WorkspaceList>, ApiError> {
    let page = workspaces.list(parameters.filter(), parameters.cursor()?, parameters.limit()?).await?;
    Ok(Json(WorkspaceList {
        items: page.items.into_iter().map(Workspace::from).collect(),
        next_cursor: page.next.map(|cursor| cursor.to_string()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        let check = |limit: Option<u32>, expect: Option<u32>| {
            let parameters =
                Parameters { status: None, container_type: None, provider: None, limit, cursor: None };
            assert_eq!(parameters.limit().ok().map(NonZeroU32::get), expect, "{limit:?}");
        };
        check(None, Some(50));
        check(Some(1), Some(1));
        check(Some(500), Some(500));
        check(Some(0), None);
        check(Some(501), None);
    }
}
