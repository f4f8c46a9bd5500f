//! The network of a sandbox, as far as it has one.
//!
//! ```text
//!  helper: user and network namespace ──descriptor──► server: rules, link, addresses, names
//!  helper: disk, root, namespaces joined              │
//!  helper: waits ◄────────────── "connected" ─────────┘
//!  helper: agent
//! ```
//!
//! The namespace belongs to the sandbox's user namespace and ends with its last process; the
//! link ends with it, and is removed by name in any case.

use std::os::fd::OwnedFd;

use emergent_host_net::Namespace;
use emergent_provider::{Operation, ProviderError, SandboxSpec};
use emergent_types::{NetworkMode, WorkspaceId};

use crate::means::Launcher;
use crate::process::ProcessIdentity;
use crate::provider::{Host, KIND, step_error};

impl Host {
    /// Refuses a network that cannot be enforced here.
    pub(crate) fn check_network(&self, spec: &SandboxSpec) -> Result<(), ProviderError> {
        match spec.network {
            NetworkMode::Isolated => Ok(()),
            NetworkMode::Internet => self.internet().map_err(|reason| ProviderError::NotEnforceable {
                provider: KIND,
                what: "network",
                reason,
            }),
        }
    }

    /// The networks that can be enforced here.
    pub(crate) fn networks(&self) -> Vec<NetworkMode> {
        let mut networks = vec![NetworkMode::Isolated];
        if self.internet().is_ok() {
            networks.push(NetworkMode::Internet);
        }
        networks
    }

    /// Why this one cannot; `None` where it can.
    pub(crate) fn why_no_network(&self, mode: NetworkMode) -> Option<String> {
        match mode {
            NetworkMode::Isolated => None,
            NetworkMode::Internet => self.internet().err(),
        }
    }

    /// Whether a sandbox can be let out, or why not.
    fn internet(&self) -> Result<(), String> {
        if self.means().is_ok_and(|means| means.launcher == Launcher::Unprivileged) {
            return Err("links and rules need root, and the server does not run as root".to_owned());
        }
        self.network.enforceable()
    }

    /// Connects a sandbox that has not started.
    pub(crate) fn connect(&self, id: WorkspaceId, namespace: OwnedFd) -> Result<(), String> {
        let attached = self.network.attach(id, &Namespace::from_fd(namespace));
        attached.map(drop).map_err(|error| error.to_string())
    }

    /// Removes what a sandbox's network has on the host; nothing at all is success.
    pub(crate) fn disconnect(&self, operation: Operation, id: WorkspaceId) -> Result<(), ProviderError> {
        self.network.detach(id).map_err(|error| step_error(operation, id, "network", error))
    }

    /// Takes over the network of a sandbox that an earlier server has started.
    pub(crate) fn adopt_network(&self, id: WorkspaceId, init: &ProcessIdentity) {
        let adopted = init.network_namespace().map_err(|error| error.to_string()).and_then(|file| {
            self.network.adopt(id, &Namespace::from_fd(file.into())).map_err(|error| error.to_string())
        });
        if let Err(error) = adopted {
            tracing::warn!(workspace = %id, "the network of {id} could not be taken over: {error}");
        }
    }

    /// Puts right what earlier servers left of the network.
    pub(crate) fn settle_network(&self) {
        if self.network.enforceable().is_err() {
            return;
        }
        if let Err(error) = self.network.recheck() {
            tracing::warn!("what is left of sandboxes' networks could not be looked at: {error}");
        }
    }
}
