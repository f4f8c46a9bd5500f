//! The order in which providers are considered. Pure.

use emergent_types::{ContainerType, DeploymentMode, ProviderChoice, ProviderKind};

use crate::Demand;

/// Strongest first. Agents' workspaces are short-lived and compute-heavy.
const WORKSPACE_CHAIN: [ProviderKind; 4] =
    [ProviderKind::Firecracker, ProviderKind::Gvisor, ProviderKind::Docker, ProviderKind::Local];

/// MCP servers are long-lived and light: gVisor costs less than a machine of their own.
const MCP_CHAIN: [ProviderKind; 4] =
    [ProviderKind::Gvisor, ProviderKind::Firecracker, ProviderKind::Docker, ProviderKind::Local];

/// The providers to consider for a demand, in order. An explicit choice is the whole chain.
pub(crate) fn chain(demand: &Demand) -> Vec<ProviderKind> {
    if let ProviderChoice::Explicit(kind) = demand.choice {
        return vec![kind];
    }
    let mut chain = match demand.container_type {
        ContainerType::AgentWorkspace => WORKSPACE_CHAIN.to_vec(),
        ContainerType::McpServer => MCP_CHAIN.to_vec(),
    };
    // Code never leaves the installation's hosts unasked.
    if demand.deployment_mode == DeploymentMode::Managed
        && demand.container_type == ContainerType::AgentWorkspace
    {
        chain.insert(0, ProviderKind::E2b);
    }
    match demand.preferred.and_then(|preferred| chain.iter().position(|kind| *kind == preferred)) {
        Some(start) => chain.split_off(start),
        None => chain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use emergent_types::IsolationLevel;
    use emergent_types::ProviderKind::*;

    fn demand() -> Demand {
        Demand {
            container_type: ContainerType::AgentWorkspace,
            deployment_mode: DeploymentMode::SelfHosted,
            choice: ProviderChoice::Auto,
            preferred: None,
            min_isolation: IsolationLevel::Container,
            isolation_is_named: false,
        }
    }

    fn check(demand: Demand, expect: &[ProviderKind]) {
        assert_eq!(chain(&demand), expect, "{demand:?}");
    }

    #[test]
    fn the_order_of_consideration() {
        check(demand(), &[Firecracker, Gvisor, Docker, Local]);
        let managed = Demand { deployment_mode: DeploymentMode::Managed, ..demand() };
        check(managed, &[E2b, Firecracker, Gvisor, Docker, Local]);
    }

    /// Proves: ORCH-17, DESIGN-5.7
    #[test]
    fn mcp_servers_prefer_gvisor() {
        let mcp = Demand { container_type: ContainerType::McpServer, ..demand() };
        check(mcp, &[Gvisor, Firecracker, Docker, Local]);
    }

    #[test]
    fn a_preference_is_where_the_chain_starts() {
        check(Demand { preferred: Some(Gvisor), ..demand() }, &[Gvisor, Docker, Local]);
        // A preference outside the chain does not empty it.
        check(Demand { preferred: Some(E2b), ..demand() }, &[Firecracker, Gvisor, Docker, Local]);
    }

    #[test]
    fn an_explicit_choice_never_falls_back() {
        check(Demand { choice: ProviderChoice::Explicit(E2b), ..demand() }, &[E2b]);
        check(
            Demand { choice: ProviderChoice::Explicit(Local), preferred: Some(Gvisor), ..demand() },
            &[Local],
        );
    }
}
