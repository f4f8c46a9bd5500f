//! What can be asked for when a workspace is created.

use std::time::Duration;

use emergent_store::{Environment, TokenId};
use emergent_types::{
    ByteSize, ContainerType, Cpu, DeploymentMode, IsolationLevel, NetworkMode, ProviderChoice, SnapshotId,
};
use emergent_workspaces::NewWorkspace;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::repositories::{self, RequestedRepository};
use super::{environment, text};
use crate::errors::ApiError;
use crate::extract::Object;

/// The longest time to live: ten years.
const MAX_TTL_SECONDS: u64 = 10 * 365 * 24 * 60 * 60;

/// The largest metadata, as JSON.
const MAX_METADATA_BYTES: usize = 16 << 10;

/// The longest name of an image.
const MAX_IMAGE_BYTES: usize = 512;

/// A workspace that is asked for. Every field may be left out or null.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateWorkspace {
    /// `agent_workspace`. Hosted MCP servers are registered at `/mcp/servers`.
    container_type: Option<ContainerType>,
    /// A repository to check out in `/workspace` before it is ready.
    #[schema(example = "https://github.com/org/repo")]
    repository_url: Option<String>,
    /// Its branch, tag or commit; the default branch where not said.
    branch: Option<String>,
    /// How many commits of its history; 1 where not said, 0 is all.
    depth: Option<u32>,
    /// Several repositories, each in a folder of its own. Either this or `repository_url`.
    #[schema(value_type = Option<Vec<RequestedRepository>>)]
    repositories: Option<Vec<Object<RequestedRepository>>>,
    /// The provider to use and no other, or `auto`.
    #[schema(value_type = Option<String>, example = "auto")]
    provider: Option<ProviderChoice>,
    /// Whether automatic choice may place it in a managed cloud.
    deployment_mode: Option<DeploymentMode>,
    /// What it may use; the server's defaults where not said.
    #[schema(value_type = Option<RequestedLimits>)]
    resource_limits: Option<Object<RequestedLimits>>,
    /// Whether a sandbox that was made ahead of time may be used; it may where not said.
    warm_start: Option<bool>,
    /// The weakest isolation that will do.
    min_isolation: Option<IsolationLevel>,
    /// What it can reach.
    network: Option<NetworkMode>,
    /// Environment variables of everything that runs in it.
    #[schema(value_type = Option<Object>)]
    env: Option<environment::Variables>,
    /// The image to start from, where the provider has images.
    base_image: Option<String>,
    /// How long it lives after its last use: 1 second to 10 years.
    #[schema(minimum = 1, maximum = 315_360_000)]
    ttl_seconds: Option<u64>,
    /// Whatever you want to remember; 16 KiB of JSON at most.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

/// A workspace that is asked for, from a snapshot. Every field but `snapshot_id` may be left out or null, and
/// is then as it was when the snapshot was taken, or as for any new workspace.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestoreWorkspace {
    /// The snapshot to start from.
    pub(super) snapshot_id: SnapshotId,
    /// What it may use; no smaller disk than the snapshot's.
    #[schema(value_type = Option<RequestedLimits>)]
    resource_limits: Option<Object<RequestedLimits>>,
    /// The weakest isolation that will do.
    min_isolation: Option<IsolationLevel>,
    /// What it can reach; no more than the workspace of the snapshot could.
    network: Option<NetworkMode>,
    /// Environment variables of everything that runs in it.
    #[schema(value_type = Option<Object>)]
    env: Option<environment::Variables>,
    /// How long it lives after its last use: 1 second to 10 years.
    #[schema(minimum = 1, maximum = 315_360_000)]
    ttl_seconds: Option<u64>,
    /// Whatever you want to remember; 16 KiB of JSON at most.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
}

impl RestoreWorkspace {
    /// The request, whole and valid.
    pub(super) fn parse(self, owner: TokenId) -> Result<NewWorkspace, ApiError> {
        let snapshot = Some(self.snapshot_id);
        let like_any = CreateWorkspace {
            resource_limits: self.resource_limits,
            min_isolation: self.min_isolation,
            network: self.network,
            env: self.env,
            ttl_seconds: self.ttl_seconds,
            metadata: self.metadata,
            ..CreateWorkspace::default()
        };
        Ok(NewWorkspace { snapshot, ..like_any.parse(owner)? })
    }
}

/// Limits as far as a request names them. Sizes are binary: `512M`, `4G`.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RequestedLimits {
    /// Processors; fractions are allowed.
    #[schema(example = "2")]
    cpu: Option<Cpu>,
    /// Memory, tmpfs included.
    #[schema(example = "4G")]
    memory: Option<ByteSize>,
    /// Everything it can write.
    #[schema(example = "10G")]
    disk: Option<ByteSize>,
}

impl CreateWorkspace {
    /// The request, whole and valid.
    pub(super) fn parse(self, owner: TokenId) -> Result<NewWorkspace, ApiError> {
        if self.container_type == Some(ContainerType::McpServer) {
            return Err(ApiError::not_supported(
                "container_type",
                "an MCP server is registered with POST /api/v1/mcp/servers",
            ));
        }
        let repositories =
            repositories::parse(self.repository_url, self.branch, self.depth, self.repositories)?;
        let Object(limits) = self.resource_limits.unwrap_or_default();
        let image =
            self.base_image.map(|image| text::checked("base_image", image, MAX_IMAGE_BYTES)).transpose()?;
        Ok(NewWorkspace {
            id: None,
            provider: self.provider.unwrap_or_default(),
            deployment_mode: self.deployment_mode,
            limits: emergent_workspaces::RequestedLimits {
                cpu: limits.cpu,
                memory: limits.memory,
                disk: limits.disk,
            },
            min_isolation: self.min_isolation,
            network: self.network,
            environment: Environment::from_iter(environment::checked(self.env)?),
            base_image: image,
            ttl: self.ttl_seconds.map(ttl).transpose()?,
            metadata: metadata(self.metadata)?,
            owner: Some(owner),
            warm_start: self.warm_start.unwrap_or(true),
            repositories,
            snapshot: None,
            hosted: None,
        })
    }
}

fn ttl(seconds: u64) -> Result<Duration, ApiError> {
    if (1..=MAX_TTL_SECONDS).contains(&seconds) {
        return Ok(Duration::from_secs(seconds));
    }
    Err(ApiError::invalid("ttl_seconds", format!("must be between 1 and {MAX_TTL_SECONDS}, not {seconds}")))
}

fn metadata(given: Option<Map<String, Value>>) -> Result<Map<String, Value>, ApiError> {
    let given = given.unwrap_or_default();
    let length = serde_json::to_vec(&given).map_err(|error| ApiError::internal(error.to_string()))?.len();
    if length > MAX_METADATA_BYTES {
        return Err(ApiError::invalid(
            "metadata",
            format!("may have {MAX_METADATA_BYTES} bytes of JSON at most, not {length}"),
        ));
    }
    if given.iter().any(|(name, value)| name.contains('\0') || has_zero(value)) {
        return Err(ApiError::invalid("metadata", "has a zero character, which no database keeps"));
    }
    Ok(given)
}

/// Whether a zero character is anywhere in it.
fn has_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_zero),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || has_zero(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use emergent_types::ProviderKind;
    use serde_json::json;

    use super::*;
    use crate::errors::ErrorCode;

    fn parse(body: Value) -> Result<NewWorkspace, ApiError> {
        serde_json::from_value::<CreateWorkspace>(body).unwrap().parse(TokenId::generate())
    }

    fn refused(body: Value, code: ErrorCode, field: &str) {
        let error = parse(body.clone()).unwrap_err();
        assert_eq!((error.code(), error.field()), (code, Some(field)), "{body}");
    }

    #[test]
    fn everything_may_be_left_out_or_null() {
        let nothing = json!({
            "container_type": null, "repository_url": null, "branch": null, "depth": null, "repositories": null,
            "provider": null,
            "deployment_mode": null, "resource_limits": null, "warm_start": null, "min_isolation": null,
            "network": null, "env": null, "base_image": null, "ttl_seconds": null, "metadata": null,
        });
        for body in [json!({}), nothing] {
            let new = parse(body).unwrap();
            assert_eq!(new.provider, ProviderChoice::Auto);
            assert_eq!(new.limits, emergent_workspaces::RequestedLimits::default());
            assert!(new.environment.is_empty() && new.ttl.is_none() && new.metadata.is_empty());
        }
    }

    /// Proves: DESIGN-10.18
    #[test]
    fn every_field_arrives() {
        let new = parse(json!({
            "container_type": "agent_workspace",
            "provider": "local",
            "deployment_mode": "managed",
            "resource_limits": {"cpu": "0.5", "memory": "512M", "disk": 1073741824},
            "warm_start": false,
            "min_isolation": "gvisor",
            "network": "isolated",
            "env": {"A": "b"},
            "base_image": "debian:12",
            "ttl_seconds": 60,
            "metadata": {"k": [1]},
        }))
        .unwrap();
        assert_eq!(new.provider, ProviderChoice::Explicit(ProviderKind::Local));
        assert_eq!(new.deployment_mode, Some(DeploymentMode::Managed));
        assert_eq!(new.limits.cpu, Some(Cpu::from_millis(500)));
        assert_eq!(new.limits.memory, Some(ByteSize::from_mib(512)));
        assert_eq!(new.limits.disk, Some(ByteSize::GIB));
        assert_eq!(new.min_isolation, Some(IsolationLevel::Gvisor));
        assert_eq!(new.network, Some(NetworkMode::Isolated));
        assert_eq!(new.environment.expose().collect::<Vec<_>>(), [("A", "b")]);
        assert_eq!(new.base_image.as_deref(), Some("debian:12"));
        assert_eq!(new.ttl, Some(Duration::from_secs(60)));
        assert_eq!(new.metadata["k"], json!([1]));
        assert!(!new.warm_start);
    }

    /// Proves: DESIGN-10.18
    #[test]
    fn what_is_not_there_yet_is_refused() {
        refused(json!({"container_type": "mcp_server"}), ErrorCode::NotSupported, "container_type");
    }

    #[test]
    fn values_out_of_range_are_refused() {
        refused(json!({"ttl_seconds": 0}), ErrorCode::InvalidRequest, "ttl_seconds");
        refused(json!({"ttl_seconds": MAX_TTL_SECONDS + 1}), ErrorCode::InvalidRequest, "ttl_seconds");
        refused(json!({"base_image": ""}), ErrorCode::InvalidRequest, "base_image");
        refused(json!({"env": {"A=": ""}}), ErrorCode::InvalidRequest, "env.A=");
        let large = json!({"metadata": {"k": "x".repeat(MAX_METADATA_BYTES)}});
        refused(large, ErrorCode::InvalidRequest, "metadata");
        for zero in [json!({"a\u{0}": 1}), json!({"a": ["\u{0}"]}), json!({"a": {"b": "x\u{0}"}})] {
            refused(json!({"metadata": zero}), ErrorCode::InvalidRequest, "metadata");
        }
    }
}
