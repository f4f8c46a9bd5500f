//! Whether a member is what a cold create would have made, or can be made so while it runs. Pure.

use emergent_orchestrator::Attempt;
use emergent_store::WorkspaceRow;
use emergent_types::{Capabilities, DiskEnforcement, Enforcement, NamedDemands, ProviderKind};

use super::Miss;

/// What a cold create would use for a request.
#[derive(Debug, Clone)]
pub(crate) struct Cold {
    pub(crate) provider: ProviderKind,
    pub(crate) capabilities: Capabilities,
    /// Who would have been asked before, and cannot serve now.
    pub(crate) passed_over: Vec<Attempt>,
}

/// Whether the member serves a request, whose row says what it wants.
pub(crate) fn check(
    member: &WorkspaceRow,
    wanted: &WorkspaceRow,
    named: NamedDemands,
    cold: &Cold,
) -> Result<(), Miss> {
    let is_strong_enough = member.isolation.is_some_and(|isolation| isolation >= wanted.min_isolation);
    if member.provider != cold.provider || !is_strong_enough {
        return Err(Miss::Provider);
    }
    if member.base_image != wanted.base_image {
        return Err(Miss::Image);
    }
    // What can be adjusted is adjusted before anybody has it.
    let can_have_limits = cold.capabilities.can_adjust(member.resource_limits, wanted.resource_limits);
    let has_shape = can_have_limits && member.network == wanted.network;
    if !has_shape || !upholds(member, named, &cold.capabilities) {
        return Err(Miss::Shape);
    }
    Ok(())
}

/// A member's limits were defaults, which are dropped where they cannot be upheld. Whoever names them is
/// refused by a cold create.
fn upholds(member: &WorkspaceRow, named: NamedDemands, capabilities: &Capabilities) -> bool {
    let is_upheld = |is_named: bool, enforcement| !is_named || enforcement == Enforcement::Enforced;
    is_upheld(named.cpu, capabilities.limits.cpu)
        && is_upheld(named.memory, capabilities.limits.memory)
        && (!named.disk || member.disk_enforcement == Some(DiskEnforcement::Hard))
}

#[cfg(test)]
mod tests {
    use emergent_types::{
        AdjustableLimits, ByteSize, Cpu, IsolationLevel, LimitEnforcement, NetworkMode, Persistence,
        ResourceLimits,
    };

    use super::*;
    use crate::{NewWorkspace, Options};

    fn cold() -> Cold {
        let capabilities = Capabilities {
            isolation: IsolationLevel::Container,
            persistence: Some(Persistence::Full),
            suspend: false,
            snapshots: false,
            warm_pool: true,
            networks: vec![NetworkMode::Isolated],
            base_image: true,
            limits: LimitEnforcement {
                cpu: Enforcement::Enforced,
                memory: Enforcement::NotEnforced,
                pids: Enforcement::Enforced,
                disk: DiskEnforcement::Hard,
            },
            adjustable: AdjustableLimits { cpu: true, ..AdjustableLimits::NONE },
            platform_needs: Vec::new(),
            runtime: None,
            startup_ms: None,
            free: None,
        };
        Cold { provider: ProviderKind::Local, capabilities, passed_over: Vec::new() }
    }

    #[test]
    fn a_member_is_what_a_cold_create_would_have_made() {
        let wanted = NewWorkspace::default().to_row(&Options::default(), NetworkMode::Isolated, false);
        let member = WorkspaceRow {
            isolation: Some(IsolationLevel::Container),
            disk_enforcement: Some(DiskEnforcement::Hard),
            ..wanted.clone()
        };
        let named = NamedDemands::default();
        let check = |member: &WorkspaceRow, wanted: &WorkspaceRow, named, expect| {
            assert_eq!(super::check(member, wanted, named, &cold()), expect, "{member:?} {named:?}");
        };
        check(&member, &wanted, named, Ok(()));
        let another = WorkspaceRow { provider: ProviderKind::Gvisor, ..member.clone() };
        check(&another, &wanted, named, Err(Miss::Provider));
        let stronger = WorkspaceRow { min_isolation: IsolationLevel::Gvisor, ..wanted.clone() };
        check(&member, &stronger, named, Err(Miss::Provider));
        let image = WorkspaceRow { base_image: Some("debian".to_owned()), ..wanted.clone() };
        check(&member, &image, named, Err(Miss::Image));
        let limits = wanted.resource_limits;
        for (limits, expect) in [
            (ResourceLimits { cpu: Cpu::from_millis(100), ..limits }, Ok(())),
            (ResourceLimits { memory: ByteSize::from_mib(64), ..limits }, Err(Miss::Shape)),
            (ResourceLimits { disk: ByteSize::from_mib(64), ..limits }, Err(Miss::Shape)),
        ] {
            check(&member, &WorkspaceRow { resource_limits: limits, ..wanted.clone() }, named, expect);
        }
        let reach = WorkspaceRow { network: NetworkMode::Internet, ..wanted.clone() };
        check(&member, &reach, named, Err(Miss::Shape));
        check(&member, &wanted, NamedDemands { cpu: true, disk: true, ..named }, Ok(()));
        check(&member, &wanted, NamedDemands { memory: true, ..named }, Err(Miss::Shape));
        let watched = WorkspaceRow { disk_enforcement: Some(DiskEnforcement::Monitored), ..member.clone() };
        check(&watched, &wanted, NamedDemands { disk: true, ..named }, Err(Miss::Shape));
    }
}
