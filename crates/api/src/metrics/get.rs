//! `GET /metrics`

use std::collections::HashMap;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use emergent_types::{ServerHealth, WorkspaceStatus};
use emergent_workspaces::{Miss, PoolView, PoolsView};

use super::names;
use crate::errors::{ApiError, PRIVATE, documented_errors};
use crate::state::ApiState;

documented_errors!(Errors: PRIVATE);

/// The server's figures, for Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "health",
    operation_id = "metrics",
    responses(
        (status = 200, description = "Figures.", body = String, content_type = "text/plain"),
        Errors,
    )
)]
pub(crate) async fn get(State(state): State<ApiState>) -> Result<Response, ApiError> {
    let recorder = super::recorder().map_err(ApiError::internal)?;
    look(&state);
    let mut text = recorder.render();
    if let Some(workspaces) = state.workspaces() {
        super::each_workspace::write(workspaces.usage_of_each(), &mut text);
    }
    let content_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((content_type, text).into_response())
}

/// Sets what is only known when it is looked at.
fn look(state: &ApiState) {
    if let Some(workspaces) = state.workspaces() {
        let mut counts: HashMap<WorkspaceStatus, u32> = HashMap::new();
        for status in workspaces.statuses() {
            *counts.entry(status).or_default() += 1;
        }
        for status in WorkspaceStatus::ALL {
            let count = counts.get(status).copied().unwrap_or(0);
            metrics::gauge!(names::WORKSPACES, "status" => status.as_str()).set(count);
        }
        super::workspaces::look(workspaces);
    }
    if let Some(workspaces) = state.workspaces() {
        look_at_pools(&workspaces.pools());
    }
    if let Some(servers) = state.mcp_servers() {
        let healths = servers.healths();
        for health in ServerHealth::ALL {
            let count = healths.iter().filter(|(_, found)| found == health).count();
            metrics::gauge!(names::MCP_SERVERS, "health" => health.as_str()).set(count as f64);
        }
        for (server, stats) in servers.bridge_stats() {
            for (kind, count) in stats.each() {
                metrics::counter!(names::MCP_BRIDGE, "server" => server.clone(), "kind" => kind)
                    .absolute(count);
            }
        }
    }
    metrics::gauge!(names::BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    metrics::gauge!(names::START_TIME_SECONDS).set(state.started_at().unix_timestamp() as f64);
    if let Some(bytes) = resident_bytes() {
        metrics::gauge!(names::RESIDENT_BYTES).set(bytes as f64);
    }
}

fn look_at_pools(pools: &PoolsView) {
    let sum = |of: fn(&PoolView) -> u32| pools.pools.iter().map(of).sum::<u32>();
    metrics::gauge!(names::POOL_MEMBERS, "state" => "wanted").set(sum(|pool| pool.size));
    metrics::gauge!(names::POOL_MEMBERS, "state" => "ready").set(sum(|pool| pool.ready));
    metrics::gauge!(names::POOL_MEMBERS, "state" => "resting").set(sum(|pool| pool.resting));
    metrics::gauge!(names::POOL_MEMBERS, "state" => "creating").set(sum(|pool| pool.creating));
    metrics::counter!(names::POOL_HITS).absolute(pools.hits);
    for miss in Miss::ALL {
        metrics::counter!(names::POOL_MISSES, "reason" => miss.as_str()).absolute(pools.misses.because(miss));
    }
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    #[test]
    fn memory_is_known() {
        assert!(super::resident_bytes().unwrap() > 1 << 20);
    }
}
