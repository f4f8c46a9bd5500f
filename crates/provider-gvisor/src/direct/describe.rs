//! What a sandbox of this provider is, for whoever asked for it.

use emergent_provider::{Sandbox, SandboxSpec};
use emergent_types::{DiskEnforcement, IsolationLevel, Persistence};

use super::host::Host;

impl Host {
    pub(super) fn describe(&self, spec: &SandboxSpec) -> Sandbox {
        Sandbox {
            provider_id: self.names.container(spec.id),
            isolation: IsolationLevel::Gvisor,
            network: spec.network,
            persistence: Persistence::Full,
            disk_enforcement: DiskEnforcement::Hard,
            warnings: Vec::new(),
            // What is unpacked here are files; nobody's wishes come with them.
            image: None,
        }
    }
}
