//! `GET /api/v1/agent/workspaces/providers`

use axum::Json;
use emergent_orchestrator::ProviderState;
use emergent_types::{Capabilities, FreeResources, IsolationLevel, ProviderKind, StartupMillis};
use emergent_workspaces::ProviderView;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::errors::ErrorCode::FeatureDisabled;
use crate::errors::{ApiError, PRIVATE, documented_errors};
use crate::extract::Workspaces;

/// The providers of this installation.
#[derive(Serialize, ToSchema)]
pub(crate) struct ProviderList {
    /// Each of them.
    providers: Vec<Provider>,
}

/// Somebody who can make sandboxes.
#[derive(Serialize, ToSchema)]
struct Provider {
    /// Which.
    name: ProviderKind,
    /// Whether it takes part.
    status: ProviderHealth,
    /// Why it does not.
    #[schema(required = true)]
    reason: Option<String>,
    /// When that was found out.
    #[serde(with = "time::serde::rfc3339")]
    last_check_at: OffsetDateTime,
    /// The isolation its sandboxes have.
    isolation: IsolationLevel,
    /// How many workspaces it runs now.
    active_workspaces: u32,
    /// What the host has left; null where it cannot be known.
    #[schema(required = true)]
    resources: Option<FreeResources>,
    /// What it can do.
    capabilities: Capabilities,
    /// How long its creates took, measured; null before the first.
    #[schema(required = true)]
    start_ms: Option<StartupMillis>,
}

/// Whether a provider takes part.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ProviderHealth {
    /// It does.
    Healthy,
    /// Its last check failed.
    Unhealthy,
}

impl From<ProviderView> for Provider {
    fn from(view: ProviderView) -> Self {
        let (status, reason) = match view.status.state {
            ProviderState::Healthy => (ProviderHealth::Healthy, None),
            ProviderState::Unhealthy(reason) => (ProviderHealth::Unhealthy, Some(reason)),
        };
        let capabilities = view.status.capabilities;
        Self {
            name: view.status.kind,
            status,
            reason,
            last_check_at: view.status.last_check_at,
            isolation: capabilities.isolation,
            active_workspaces: view.active_workspaces,
            resources: capabilities.free,
            start_ms: capabilities.startup_ms,
            capabilities,
        }
    }
}

documented_errors!(Errors: PRIVATE, &[FeatureDisabled]);

/// Lists the providers, with their health and what they can do.
#[utoipa::path(
    get,
    path = "/api/v1/agent/workspaces/providers",
    tag = "workspaces",
    operation_id = "list_providers",
    responses((status = 200, description = "The providers.", body = ProviderList), Errors)
)]
pub(crate) async fn list(Workspaces(workspaces): Workspaces) -> Result<Json<ProviderList>, ApiError> {
    let providers = workspaces.providers().await?;
    Ok(Json(ProviderList { providers: providers.into_iter().map(Provider::from).collect() }))
}
