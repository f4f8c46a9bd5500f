//! A workspace's row, in SQLite's types and in ours.

use emergent_types::{DiskEnforcement, IsolationLevel, Persistence, WorkspaceId};
use serde::Serialize;
use sqlx::Sqlite;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};

use super::record::Record;
use crate::clock::to_millis;
use crate::{Environment, Operation, Place, StoreError, Vault, WorkspaceRow};

const TABLE: &str = "kb_agent_workspaces";
const ENVIRONMENT_COLUMN: &str = "kb_agent_workspaces.environment_encrypted";

/// Every column, in the order in which [`insert`] binds them.
const INSERT: &str = "
    INSERT INTO kb_agent_workspaces (
        id, agent_session_id, container_type, provider, provider_workspace_id,
        repository_url, branch, deployment_mode, lifecycle, status,
        created_at, last_used_at, expires_at, resource_limits, snapshot_id,
        mcp_config, metadata, requested_provider, min_isolation, network,
        base_image, ttl_seconds, environment_encrypted, owner_id, isolation,
        persistence, disk_enforcement, attempts, warnings, error,
        resume_attempts, acknowledged
    ) VALUES (
        ?, ?, ?, ?, ?,  ?, ?, ?, ?, ?,  ?, ?, ?, ?, ?,  ?, ?, ?, ?, ?,
        ?, ?, ?, ?, ?,  ?, ?, ?, ?, ?,  ?, ?
    )";

/// Every column that may change, in the order in which [`update`] binds them.
const UPDATE: &str = "
    UPDATE kb_agent_workspaces SET
        provider = ?, provider_workspace_id = ?, status = ?, last_used_at = ?, expires_at = ?,
        metadata = ?, network = ?, isolation = ?, persistence = ?, disk_enforcement = ?,
        attempts = ?, warnings = ?, error = ?, resume_attempts = ?
    WHERE id = ?";

type Statement = Query<'static, Sqlite, SqliteArguments>;

/// The statement that writes all of `row`.
pub(super) fn insert(row: &WorkspaceRow, vault: &Vault) -> Result<Statement, StoreError> {
    let writing = Writing { operation: Operation::InsertWorkspace(row.id) };
    Ok(sqlx::query(INSERT)
        .bind(row.id.to_string())
        .bind(row.agent_session_id.map(|id| id.hyphenated().to_string()))
        .bind(row.container_type.as_str())
        .bind(row.provider.as_str())
        .bind(row.provider_workspace_id.clone())
        .bind(row.repository_url.clone())
        .bind(row.branch.clone())
        .bind(row.deployment_mode.as_str())
        .bind(row.lifecycle.as_str())
        .bind(row.status.as_str())
        .bind(to_millis(row.created_at))
        .bind(to_millis(row.last_used_at))
        .bind(row.expires_at.map(to_millis))
        .bind(writing.json("resource_limits", &row.resource_limits)?)
        .bind(row.snapshot_id.clone())
        .bind(writing.json_optional("mcp_config", &row.mcp_config)?)
        .bind(writing.json("metadata", &row.metadata)?)
        .bind(row.requested_provider.as_str())
        .bind(row.min_isolation.as_str())
        .bind(row.network.as_str())
        .bind(row.base_image.clone())
        .bind(row.ttl_seconds)
        .bind(writing.sealed(row.id, &row.environment, vault)?)
        .bind(row.owner_id.map(|id| id.to_string()))
        .bind(row.isolation.map(IsolationLevel::as_str))
        .bind(row.persistence.map(Persistence::as_str))
        .bind(row.disk_enforcement.map(DiskEnforcement::as_str))
        .bind(writing.json("attempts", &row.attempts)?)
        .bind(writing.json("warnings", &row.warnings)?)
        .bind(writing.json_optional("error", &row.error)?)
        .bind(row.resume_attempts)
        .bind(row.acknowledged))
}

/// The statement that writes what may change in `row`.
pub(super) fn update(row: &WorkspaceRow) -> Result<Statement, StoreError> {
    let writing = Writing { operation: Operation::UpdateWorkspace(row.id) };
    Ok(sqlx::query(UPDATE)
        .bind(row.provider.as_str())
        .bind(row.provider_workspace_id.clone())
        .bind(row.status.as_str())
        .bind(to_millis(row.last_used_at))
        .bind(row.expires_at.map(to_millis))
        .bind(writing.json("metadata", &row.metadata)?)
        .bind(row.network.as_str())
        .bind(row.isolation.map(IsolationLevel::as_str))
        .bind(row.persistence.map(Persistence::as_str))
        .bind(row.disk_enforcement.map(DiskEnforcement::as_str))
        .bind(writing.json("attempts", &row.attempts)?)
        .bind(writing.json("warnings", &row.warnings)?)
        .bind(writing.json_optional("error", &row.error)?)
        .bind(row.resume_attempts)
        .bind(row.id.to_string()))
}

/// The meaning of a row that has every column.
pub(super) fn decode(row: &SqliteRow, vault: &Vault) -> Result<WorkspaceRow, StoreError> {
    let record = Record::new(TABLE, row);
    let id: WorkspaceId = record.parse("id")?;
    Ok(WorkspaceRow {
        id,
        agent_session_id: record.parse_optional("agent_session_id")?,
        container_type: record.parse("container_type")?,
        provider: record.parse("provider")?,
        provider_workspace_id: record.get("provider_workspace_id")?,
        repository_url: record.get("repository_url")?,
        branch: record.get("branch")?,
        deployment_mode: record.parse("deployment_mode")?,
        lifecycle: record.parse("lifecycle")?,
        status: record.parse("status")?,
        created_at: record.instant("created_at")?,
        last_used_at: record.instant("last_used_at")?,
        expires_at: record.instant_optional("expires_at")?,
        resource_limits: record.json("resource_limits")?,
        snapshot_id: record.get("snapshot_id")?,
        mcp_config: record.json_optional("mcp_config")?,
        metadata: record.json("metadata")?,
        requested_provider: record.parse("requested_provider")?,
        min_isolation: record.parse("min_isolation")?,
        network: record.parse("network")?,
        base_image: record.get("base_image")?,
        ttl_seconds: record.get("ttl_seconds")?,
        environment: unseal(&record, id, vault)?,
        owner_id: record.parse_optional("owner_id")?,
        isolation: record.parse_optional("isolation")?,
        persistence: record.parse_optional("persistence")?,
        disk_enforcement: record.parse_optional("disk_enforcement")?,
        attempts: record.json("attempts")?,
        warnings: record.json("warnings")?,
        error: record.json_optional("error")?,
        resume_attempts: record.get("resume_attempts")?,
        acknowledged: record.get("acknowledged")?,
    })
}

/// The id of a row that need not have more.
pub(super) fn decode_id(row: &SqliteRow) -> Result<WorkspaceId, StoreError> {
    Record::new(TABLE, row).parse("id")
}

fn unseal(record: &Record<'_>, id: WorkspaceId, vault: &Vault) -> Result<Environment, StoreError> {
    const COLUMN: &str = "environment_encrypted";
    let Some(sealed) = record.get::<Option<&[u8]>>(COLUMN)? else {
        return Ok(Environment::default());
    };
    let place = Place { column: ENVIRONMENT_COLUMN, row: &id.to_string() };
    let json = vault.open(place, sealed).map_err(|error| record.unreadable(COLUMN, error))?;
    Environment::from_json(&json).map_err(|error| record.unreadable(COLUMN, error))
}

/// Brings values into the form in which they are kept.
struct Writing {
    operation: Operation,
}

impl Writing {
    fn json(&self, column: &'static str, value: &impl Serialize) -> Result<String, StoreError> {
        serde_json::to_string(value).map_err(|cause| self.unwritable(column, cause))
    }

    fn json_optional(
        &self,
        column: &'static str,
        value: &Option<impl Serialize>,
    ) -> Result<Option<String>, StoreError> {
        value.as_ref().map(|value| self.json(column, value)).transpose()
    }

    fn sealed(
        &self,
        id: WorkspaceId,
        environment: &Environment,
        vault: &Vault,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        if environment.is_empty() {
            return Ok(None);
        }
        let unwritable = "environment_encrypted";
        let json = environment.to_json().map_err(|cause| self.unwritable(unwritable, cause))?;
        let place = Place { column: ENVIRONMENT_COLUMN, row: &id.to_string() };
        vault.seal(place, &json).map(Some).map_err(|cause| self.unwritable(unwritable, cause))
    }

    fn unwritable(
        &self,
        column: &'static str,
        cause: impl std::error::Error + Send + Sync + 'static,
    ) -> StoreError {
        StoreError::UnwritableValue { operation: self.operation, column, cause: Box::new(cause) }
    }
}
