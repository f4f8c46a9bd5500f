//! The key by which an agent knows its control plane.

use std::fmt;

use emergent_protocol::KEY_LENGTH;
use emergent_types::WorkspaceId;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// A sandbox's key. Derived, not stored: the installation's secret and the workspace's id
/// give it back after any restart. Cannot be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct AgentKey([u8; KEY_LENGTH]);

impl AgentKey {
    /// The key of one workspace in one installation.
    pub fn derive(installation_secret: &[u8], workspace: WorkspaceId) -> Self {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(installation_secret).expect("HMAC takes a key of any length");
        mac.update(b"emergent agent key v1\0");
        mac.update(workspace.as_uuid().as_bytes());
        Self(mac.finalize().into_bytes().into())
    }

    /// The key's bytes, for the handshake.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The key as the agent's init expects it in its environment.
    pub fn expose_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for AgentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_by_workspace_and_installation_and_do_not_print() {
        let (one, two) = (WorkspaceId::generate(), WorkspaceId::generate());
        let key = AgentKey::derive(b"secret", one);
        assert_eq!(key, AgentKey::derive(b"secret", one));
        assert_ne!(key, AgentKey::derive(b"secret", two));
        assert_ne!(key, AgentKey::derive(b"other", one));
        assert_eq!(format!("{key:?}"), "AgentKey(…)");
        assert_eq!(key.expose_hex().len(), 2 * KEY_LENGTH);
    }
}
