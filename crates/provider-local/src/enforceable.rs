//! Whether a request can be kept to here. Decided before anything is made.

use emergent_provider::{ProviderError, SandboxSpec};
use emergent_types::{ByteSize, NetworkMode};

use crate::disk;
use crate::provider::KIND;

/// Below this the agent itself and one small command do not fit.
const MIN_MEMORY: ByteSize = ByteSize::from_mib(32);

/// Above this some host file systems cannot hold one file.
const MAX_DISK: ByteSize = ByteSize::from_gib(8 << 10);

/// Refuses what cannot be enforced, naming the field.
pub(crate) fn check(spec: &SandboxSpec) -> Result<(), ProviderError> {
    let refuse = |what, reason: String| Err(ProviderError::NotEnforceable { provider: KIND, what, reason });
    if spec.network != NetworkMode::Isolated {
        return refuse("network", "the local provider has no network but \"isolated\"".to_owned());
    }
    if spec.base_image.is_some() {
        let reason = "the local provider uses the host's own system and cannot take an image".to_owned();
        return refuse("base_image", reason);
    }
    if spec.limits.memory < MIN_MEMORY {
        return refuse("memory", format!("{} is below the least of {MIN_MEMORY}", spec.limits.memory));
    }
    let min_disk = ByteSize::from_bytes(disk::MIN_BYTES);
    if spec.limits.disk < min_disk {
        return refuse("disk", format!("{} is below the least of {min_disk}", spec.limits.disk));
    }
    if spec.limits.disk > MAX_DISK {
        let reason = format!("{} is above the greatest of {MAX_DISK}", spec.limits.disk);
        return refuse("disk", reason);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use emergent_agent_client::AgentKey;
    use emergent_types::{ResourceLimits, WorkspaceId};

    #[test]
    fn what_cannot_be_enforced_is_named() {
        let id = WorkspaceId::generate();
        let good = SandboxSpec {
            id,
            limits: ResourceLimits::WORKSPACE_DEFAULT,
            network: NetworkMode::Isolated,
            base_image: None,
            agent_key: AgentKey::derive(b"secret", id),
        };
        assert!(check(&good).is_ok());

        let refused = |spec: SandboxSpec, field: &str| match check(&spec) {
            Err(ProviderError::NotEnforceable { what, .. }) => assert_eq!(what, field),
            other => panic!("{field}: {other:?}"),
        };
        refused(SandboxSpec { network: NetworkMode::Internet, ..good.clone() }, "network");
        refused(SandboxSpec { base_image: Some("debian".to_owned()), ..good.clone() }, "base_image");
        let limits = ResourceLimits { memory: ByteSize::from_mib(31), ..good.limits };
        refused(SandboxSpec { limits, ..good.clone() }, "memory");
        let limits = ResourceLimits { disk: ByteSize::from_mib(15), ..good.limits };
        refused(SandboxSpec { limits, ..good.clone() }, "disk");
        let limits = ResourceLimits { disk: ByteSize::from_gib(64 << 10), ..good.limits };
        refused(SandboxSpec { limits, ..good }, "disk");
    }
}
