//! `GET /api/v1/agent/workspaces/{id}/metrics`

use axum::Json;
use emergent_types::{ResourceLimits, WorkspaceId};
use emergent_workspaces::{Sample, WorkspaceUsage};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::errors::ErrorCode::{ProviderFailed, WorkspaceNotReady};
use crate::errors::{ApiError, PRIVATE, WORKSPACE, documented_errors};
use crate::extract::{WorkspacePath, Workspaces};

/// What a workspace uses, as its host counts it. What cannot be told is null.
#[derive(Serialize, ToSchema)]
pub(crate) struct WorkspaceMetrics {
    /// Processors.
    cpu: CpuMetrics,
    /// Memory.
    memory: SpaceMetrics,
    /// Disk: what it takes up on the host.
    disk: SpaceMetrics,
    /// Processes in it.
    #[schema(required = true)]
    processes: Option<u64>,
    /// When this was looked at.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schema(required = true)]
    sampled_at: Option<OffsetDateTime>,
    /// What it used before, the oldest first; the last few minutes.
    samples: Vec<MetricsSample>,
}

/// Processors that a workspace uses.
#[derive(Serialize, ToSchema)]
struct CpuMetrics {
    /// Of its limit, since the look before.
    #[schema(required = true)]
    used_percent: Option<f64>,
    /// How many it may use.
    limit: f64,
    /// Time it has used since it was last started, in seconds.
    #[schema(required = true)]
    time_seconds: Option<f64>,
}

/// Bytes that a workspace uses.
#[derive(Serialize, ToSchema)]
struct SpaceMetrics {
    /// How many it uses.
    #[schema(required = true)]
    used_bytes: Option<u64>,
    /// How many it may use.
    limit_bytes: u64,
    /// Of its limit.
    #[schema(required = true)]
    used_percent: Option<f64>,
}

/// What a workspace used at one moment.
#[derive(Serialize, ToSchema)]
struct MetricsSample {
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    at: OffsetDateTime,
    /// Processors, of its limit.
    #[schema(required = true)]
    cpu_percent: Option<f64>,
    /// Memory.
    #[schema(required = true)]
    memory_bytes: Option<u64>,
    /// Disk.
    #[schema(required = true)]
    disk_bytes: Option<u64>,
    /// Processes.
    #[schema(required = true)]
    processes: Option<u64>,
}

impl From<WorkspaceUsage> for WorkspaceMetrics {
    fn from(found: WorkspaceUsage) -> Self {
        let limits = found.limits;
        let usage = found.latest.map(|sample| sample.usage).unwrap_or_default();
        Self {
            cpu: CpuMetrics {
                used_percent: found.latest.and_then(|sample| cpu_percent(&sample, &limits)),
                limit: cpus(&limits),
                time_seconds: usage.cpu_time.map(|time| rounded(time.as_secs_f64(), 1000.0)),
            },
            memory: SpaceMetrics::of(usage.memory_bytes, limits.memory.bytes()),
            disk: SpaceMetrics::of(usage.disk_bytes, limits.disk.bytes()),
            processes: usage.processes,
            sampled_at: found.latest.map(|sample| sample.at),
            samples: found.samples.iter().map(|sample| MetricsSample::of(sample, &limits)).collect(),
        }
    }
}

impl SpaceMetrics {
    fn of(used_bytes: Option<u64>, limit_bytes: u64) -> Self {
        let percent = |used: u64| percent(used as f64, limit_bytes as f64);
        Self { used_bytes, limit_bytes, used_percent: used_bytes.map(percent) }
    }
}

impl MetricsSample {
    fn of(sample: &Sample, limits: &ResourceLimits) -> Self {
        Self {
            at: sample.at,
            cpu_percent: cpu_percent(sample, limits),
            memory_bytes: sample.usage.memory_bytes,
            disk_bytes: sample.usage.disk_bytes,
            processes: sample.usage.processes,
        }
    }
}

fn cpu_percent(sample: &Sample, limits: &ResourceLimits) -> Option<f64> {
    sample.cpu_cores.map(|cores| percent(cores, cpus(limits)))
}

fn cpus(limits: &ResourceLimits) -> f64 {
    f64::from(limits.cpu.millis()) / 1000.0
}

/// Two digits behind the point are more than can be known.
fn percent(used: f64, limit: f64) -> f64 {
    rounded(used / limit.max(f64::MIN_POSITIVE) * 100.0, 100.0)
}

fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

documented_errors!(Errors: PRIVATE, WORKSPACE, &[WorkspaceNotReady, ProviderFailed]);

/// Tells what a running workspace uses.
///
/// Looked at from outside, at most a second ago. Not a use of the workspace: it expires all the same.
#[utoipa::path(
    get,
    path = "/api/v1/agent/workspaces/{id}/metrics",
    tag = "workspaces",
    operation_id = "workspace_metrics",
    params(("id" = WorkspaceId, Path, description = "The workspace.")),
    responses((status = 200, description = "What it uses.", body = WorkspaceMetrics), Errors)
)]
pub(crate) async fn metrics(
    Workspaces(workspaces): Workspaces,
    WorkspacePath(id): WorkspacePath,
) -> Result<Json<WorkspaceMetrics>, ApiError> {
    Ok(Json(workspaces.usage(id).await?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_null_and_never_zero() {
        let limits = ResourceLimits::WORKSPACE_DEFAULT;
        let nothing = WorkspaceUsage { limits, latest: None, samples: Vec::new() };
        let shown = serde_json::to_value(WorkspaceMetrics::from(nothing)).unwrap();
        for pointer in
            ["/cpu/used_percent", "/memory/used_bytes", "/disk/used_percent", "/processes", "/sampled_at"]
        {
            assert_eq!(shown.pointer(pointer), Some(&serde_json::Value::Null), "{pointer}");
        }
        assert_eq!(shown["cpu"]["limit"], 2.0);
    }
}
