//! What a host's network is made with.

use std::path::PathBuf;

use emergent_types::InstallationId;

use crate::cidr::Cidr;

/// What a [`HostNetwork`](crate::HostNetwork) is made with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whose links and rules these are. Part of every name outside this process.
    pub installation: InstallationId,
    /// Ranges that sandboxes may reach although they are denied by default. The host's own
    /// addresses stay closed.
    pub egress_allow: Vec<Cidr>,
    /// Where the host's resolvers are written down.
    pub resolv_conf: PathBuf,
    /// Whether the rules are looked after all the time; else only when
    /// [`recheck`](crate::HostNetwork::recheck) is called.
    pub watch: bool,
}

impl Options {
    /// Nothing opened, the host's usual resolvers, and a watch.
    pub fn new(installation: InstallationId) -> Self {
        Self {
            installation,
            egress_allow: Vec::new(),
            resolv_conf: PathBuf::from("/etc/resolv.conf"),
            watch: true,
        }
    }
}
