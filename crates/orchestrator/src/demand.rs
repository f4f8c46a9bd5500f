//! What a request asks of a provider.

use emergent_types::{ContainerType, DeploymentMode, IsolationLevel, ProviderChoice, ProviderKind};

/// What a request asks of a provider, with every default filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Demand {
    /// What is to be placed.
    pub container_type: ContainerType,
    /// Whether a managed cloud may be used by automatic choice.
    pub deployment_mode: DeploymentMode,
    /// What the request says about the provider.
    pub choice: ProviderChoice,
    /// Where an automatic chain starts; `None` is at its strongest member.
    pub preferred: Option<ProviderKind>,
    /// Nothing weaker will do.
    pub min_isolation: IsolationLevel,
    /// Whether the request itself names that level. Otherwise it is the installation's own.
    pub isolation_is_named: bool,
}
