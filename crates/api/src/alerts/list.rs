//! `GET /api/v1/alerts`

use axum::Json;
use emergent_workspaces::Alert;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::errors::ErrorCode::FeatureDisabled;
use crate::errors::{ApiError, PRIVATE, documented_errors};
use crate::extract::Workspaces;

/// What somebody should look at now.
#[derive(Serialize, ToSchema)]
pub(crate) struct AlertList {
    /// Each of them; none is good.
    items: Vec<ActiveAlert>,
}

/// Something that somebody should look at.
#[derive(Serialize, ToSchema)]
struct ActiveAlert {
    /// Names it as long as it lasts.
    id: String,
    /// `host_cpu`, `host_memory`, `host_disk`, `provider_unhealthy`, `workspace_disk` or `mcp_server`.
    kind: &'static str,
    /// `warning` or `critical`.
    severity: &'static str,
    /// For people.
    message: String,
    /// When it was raised.
    #[serde(with = "time::serde::rfc3339")]
    since: OffsetDateTime,
    /// How much it is now, in per cent; null where it is not a matter of more or less.
    #[schema(required = true)]
    value: Option<f64>,
    /// From how much on there is an alert.
    #[schema(required = true)]
    threshold: Option<f64>,
}

impl From<Alert> for ActiveAlert {
    fn from(alert: Alert) -> Self {
        Self {
            id: alert.id,
            kind: alert.kind.as_str(),
            severity: alert.severity.as_str(),
            message: alert.message,
            since: alert.since,
            value: alert.value.map(|value| (value * 100.0).round() / 100.0),
            threshold: alert.threshold,
        }
    }
}

documented_errors!(Errors: PRIVATE, &[FeatureDisabled]);

/// Lists what somebody should look at now. An alert goes when its reason does.
#[utoipa::path(
    get,
    path = "/api/v1/alerts",
    tag = "health",
    operation_id = "list_alerts",
    responses((status = 200, description = "The alerts.", body = AlertList), Errors)
)]
pub(crate) async fn list(Workspaces(workspaces): Workspaces) -> Result<Json<AlertList>, ApiError> {
    let items = workspaces.alerts().into_iter().map(ActiveAlert::from).collect();
    Ok(Json(AlertList { items }))
}
