//! Copies of workspaces' files, and workspaces made from them.

use std::collections::BTreeMap;

use emergent_types::{IsolationLevel, NetworkMode, ProviderKind, ResourceLimits, SnapshotId, WorkspaceId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::client::NO_QUERY;
use crate::workspaces::WORKSPACES;
use crate::{Client, ClientError, RequestedLimits, Workspace};

const SNAPSHOTS: &str = "/api/v1/agent/snapshots";

/// A copy of a workspace's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Names it in every other call.
    pub id: SnapshotId,
    /// `creating`, `ready` or `deleting`.
    pub status: String,
    /// What its owner calls it.
    pub name: Option<String>,
    /// Whose files it holds. That workspace may be gone.
    pub workspace_id: WorkspaceId,
    /// Who keeps it.
    pub provider: ProviderKind,
    /// The isolation its workspace had.
    pub isolation: IsolationLevel,
    /// What its workspace could reach.
    pub network: NetworkMode,
    /// What its workspace could use.
    pub resource_limits: ResourceLimits,
    /// The image its workspace had started from.
    pub base_image: Option<String>,
    /// When it was asked for.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

/// A page of snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotList {
    /// Newest first.
    pub items: Vec<Snapshot>,
    /// Asks for the next page.
    pub next_cursor: Option<String>,
}

/// That a snapshot is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletedSnapshot {
    /// Which.
    pub id: SnapshotId,
    /// `deleted`.
    pub status: String,
}

/// A new workspace from a snapshot.
#[derive(Clone, Serialize)]
pub struct RestoreWorkspace {
    /// The snapshot to start from.
    pub snapshot_id: SnapshotId,
    /// What it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_limits: Option<RequestedLimits>,
    /// What it can reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkMode>,
    /// Environment variables of everything that runs in it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// How long it lives after its last use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// Whatever you want to remember.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// What a fork has made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forks {
    /// Each of them.
    pub items: Vec<Workspace>,
}

impl Client {
    /// Copies the files of a workspace as they are at one moment.
    pub async fn snapshot(&self, id: WorkspaceId, name: Option<&str>) -> Result<Snapshot, ClientError> {
        let body = serde_json::json!({"name": name});
        self.post(&format!("{WORKSPACES}/{id}/snapshot"), &body).await
    }

    /// A page of snapshots, newest first; of one workspace where that is said.
    pub async fn snapshots(
        &self,
        workspace: Option<WorkspaceId>,
        cursor: Option<&str>,
    ) -> Result<SnapshotList, ClientError> {
        let mut query: Vec<_> = cursor.map(|cursor| ("cursor", cursor.to_owned())).into_iter().collect();
        query.extend(workspace.map(|id| ("workspace_id", id.to_string())));
        self.get(SNAPSHOTS, &query).await
    }

    /// Removes a snapshot.
    pub async fn delete_snapshot(&self, id: SnapshotId) -> Result<DeletedSnapshot, ClientError> {
        self.delete(&format!("{SNAPSHOTS}/{id}"), &NO_QUERY).await
    }

    /// Creates a workspace whose files are those of a snapshot, and waits until it is ready.
    pub async fn restore(&self, request: &RestoreWorkspace) -> Result<Workspace, ClientError> {
        self.post(&format!("{WORKSPACES}/from-snapshot"), request).await
    }

    /// Makes workspaces that have the files of this one, and waits until they are ready.
    pub async fn fork(&self, id: WorkspaceId, count: u32) -> Result<Forks, ClientError> {
        self.post(&format!("{WORKSPACES}/{id}/fork"), &serde_json::json!({"count": count})).await
    }
}
