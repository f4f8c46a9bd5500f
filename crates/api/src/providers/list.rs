//! `GET /api/v1/agent/workspaces/providers`

use axum::Json;
use emergent_orchestrator::{ProviderState, UnavailableNetwork};
use emergent_types::{Capabilities, FreeResources, IsolationLevel, NetworkMode, ProviderKind, StartupMillis};
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
    /// When that was found out; null where it is not used.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schema(required = true)]
    last_check_at: Option<OffsetDateTime>,
    /// The isolation its sandboxes have.
    isolation: IsolationLevel,
    /// How many workspaces it runs now.
    active_workspaces: u32,
    /// What the host has left; null where it cannot be known.
    #[schema(required = true)]
    resources: Option<FreeResources>,
    /// What it can do; null where it is not used, or has not said.
    #[schema(required = true)]
    capabilities: Option<ProviderCapabilities>,
    /// How long its creates took, measured; null before the first.
    #[schema(required = true)]
    start_ms: Option<StartupMillis>,
}

/// What a provider can do, and why not more.
#[derive(Serialize, ToSchema)]
struct ProviderCapabilities {
    #[serde(flatten)]
    capabilities: Capabilities,
    /// Network modes that are not among `networks`.
    networks_unavailable: Vec<NetworkUnavailable>,
}

/// A network mode that is not offered.
#[derive(Serialize, ToSchema)]
struct NetworkUnavailable {
    /// Which.
    network: NetworkMode,
    /// Why; null where nothing is known about it.
    #[schema(required = true)]
    reason: Option<String>,
}

impl From<UnavailableNetwork> for NetworkUnavailable {
    fn from(UnavailableNetwork { network, reason }: UnavailableNetwork) -> Self {
        Self { network, reason }
    }
}

/// Whether a provider takes part.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ProviderHealth {
    /// It does.
    Healthy,
    /// Its last check failed.
    Unhealthy,
    /// It is not used here.
    Disabled,
}

impl From<ProviderView> for Provider {
    fn from(view: ProviderView) -> Self {
        let (status, reason) = match view.status.state {
            ProviderState::Healthy => (ProviderHealth::Healthy, None),
            ProviderState::Unhealthy(reason) => (ProviderHealth::Unhealthy, Some(reason)),
            ProviderState::Disabled(reason) => (ProviderHealth::Disabled, Some(reason)),
        };
        let networks_unavailable = view.status.networks_unavailable.into_iter().map(NetworkUnavailable::from);
        let known = view.status.capabilities.as_ref();
        Self {
            name: view.status.kind,
            status,
            reason,
            last_check_at: view.status.last_check_at,
            isolation: known.map_or(view.status.kind.isolation(), |known| known.isolation),
            active_workspaces: view.active_workspaces,
            resources: known.and_then(|known| known.free),
            start_ms: known.and_then(|known| known.startup_ms),
            capabilities: view.status.capabilities.map(|capabilities| ProviderCapabilities {
                capabilities,
                networks_unavailable: networks_unavailable.collect(),
            }),
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
