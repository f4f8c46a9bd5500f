//! What workspaces use.

use emergent_types::WorkspaceId;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::client::NO_QUERY;
use crate::workspaces::WORKSPACES;
use crate::{Client, ClientError};

/// What a workspace uses. What cannot be told is `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkspaceMetrics {
    /// Processors.
    pub cpu: CpuMetrics,
    /// Memory.
    pub memory: SpaceMetrics,
    /// Disk.
    pub disk: SpaceMetrics,
    /// Processes in it.
    pub processes: Option<u64>,
    /// When this was looked at.
    #[serde(with = "time::serde::rfc3339::option")]
    pub sampled_at: Option<OffsetDateTime>,
    /// What it used before, the oldest first.
    pub samples: Vec<MetricsSample>,
}

/// Processors that a workspace uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuMetrics {
    /// Of its limit.
    pub used_percent: Option<f64>,
    /// How many it may use.
    pub limit: f64,
    /// Time it has used since it was last started, in seconds.
    pub time_seconds: Option<f64>,
}

/// Bytes that a workspace uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpaceMetrics {
    /// How many it uses.
    pub used_bytes: Option<u64>,
    /// How many it may use.
    pub limit_bytes: u64,
    /// Of its limit.
    pub used_percent: Option<f64>,
}

/// What a workspace used at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricsSample {
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Processors, of its limit.
    pub cpu_percent: Option<f64>,
    /// Memory.
    pub memory_bytes: Option<u64>,
    /// Disk.
    pub disk_bytes: Option<u64>,
    /// Processes.
    pub processes: Option<u64>,
}

impl Client {
    /// What a running workspace uses.
    pub async fn workspace_metrics(&self, id: WorkspaceId) -> Result<WorkspaceMetrics, ClientError> {
        self.get(&format!("{WORKSPACES}/{id}/metrics"), &NO_QUERY).await
    }
}
