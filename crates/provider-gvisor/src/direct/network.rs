//! What sandboxes reach.
//!
//! `isolated`: runsc with `--network=none`, a stack of gVisor's own with nothing but loopback, in a network
//! namespace with nothing in it.
//!
//! `internet`: a network namespace with one link of `host-net`'s, made before the sandbox and given to runsc by
//! a descriptor of this process, so that it has no name and ends with the sandbox. `--network=host` means the
//! sockets of that namespace, which every runsc can do on every kernel; that the sandbox really is there, and
//! not in the host's own, is looked at each time.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use emergent_host_net::{HostNetwork, Namespace, RESOLVER};
use emergent_provider::{Operation, ProviderError};
use emergent_types::{InstallationId, NetworkMode, WorkspaceId};

use super::host::Host;
use crate::network::{METADATA, Offer, judge};

/// What could not be had is tried again: somebody may have seen to it.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(300);

/// Whose links and rules those of this provider are: the installation's id, turned over at its end. The
/// embedded provider has a network of the same host under the id itself, and takes its links for its own.
pub fn network_id(installation: InstallationId) -> InstallationId {
    let mut bytes = installation.as_uuid().into_bytes();
    for byte in &mut bytes[12..] {
        *byte = !*byte;
    }
    uuid::Uuid::from_bytes(bytes).into()
}

/// The network `internet` of the provider.
pub(super) struct Internet {
    pub(super) links: Arc<HostNetwork>,
    offer: Mutex<Offer>,
}

/// A namespace with a link, for a sandbox that is about to be started.
pub(super) struct Connection {
    namespace: Namespace,
    /// The host's end.
    gateway: Ipv4Addr,
}

impl Connection {
    /// As runsc is told it. Means this as long as it is there.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.namespace.as_fd().as_raw_fd())
    }
}

impl Internet {
    pub(super) fn new(installation: InstallationId, egress_allow: Vec<emergent_host_net::Cidr>) -> Self {
        let mut options = emergent_host_net::Options::new(network_id(installation));
        options.egress_allow = egress_allow;
        Self { links: Arc::new(HostNetwork::new(options)), offer: Mutex::default() }
    }

    pub(super) fn offer(&self) -> Offer {
        self.offer.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_offer(&self, offer: Offer) {
        *self.offer.lock().unwrap_or_else(PoisonError::into_inner) = offer;
    }
}

impl Host {
    /// Whom a sandbox asks for names.
    pub(super) fn nameservers(network: NetworkMode) -> &'static [IpAddr] {
        const FORWARDER: [IpAddr; 1] = [RESOLVER.ip()];
        match network {
            NetworkMode::Isolated => &[],
            NetworkMode::Internet => &FORWARDER,
        }
    }

    /// A namespace with the sandbox's link in it; the rules are in place when this returns.
    pub(super) async fn connection(
        &self,
        operation: Operation,
        id: WorkspaceId,
        network: NetworkMode,
    ) -> Result<Option<Connection>, ProviderError> {
        if network == NetworkMode::Isolated {
            return Ok(None);
        }
        let links = Arc::clone(&self.internet.links);
        let made = tokio::task::spawn_blocking(move || {
            links.enforceable()?;
            let namespace = Namespace::make().map_err(|error| error.to_string())?;
            let attached = links.attach(id, &namespace).map_err(|error| error.to_string())?;
            Ok(Connection { namespace, gateway: attached.gateway })
        });
        let made = made.await.map_err(|panic| self.step(operation, id, "network", panic))?;
        let refused =
            |reason| ProviderError::NotEnforceable { provider: self.kind(), what: "network", reason };
        made.map(Some).map_err(refused)
    }

    /// Removes what a sandbox's network has on the host; nothing at all is success.
    pub(super) async fn disconnect(
        &self,
        operation: Operation,
        id: WorkspaceId,
    ) -> Result<(), ProviderError> {
        let links = Arc::clone(&self.internet.links);
        self.blocking(operation, id, "network", move || links.detach(id).map_err(io::Error::other)).await
    }

    /// Refuses a sandbox that is in another network namespace than it should be.
    pub(super) fn check_namespace(&self, pid: i32, connection: Option<&Connection>) -> Result<(), String> {
        let theirs = fs::metadata(format!("/proc/{pid}/ns/net")).map_err(|error| error.to_string())?.ino();
        let own = fs::metadata("/proc/thread-self/ns/net").map_err(|error| error.to_string())?.ino();
        let wanted = match connection {
            Some(connection) => {
                let fd = format!("/proc/self/fd/{}", connection.namespace.as_fd().as_raw_fd());
                Some(fs::metadata(fd).map_err(|error| error.to_string())?.ino())
            }
            None => None,
        };
        match wanted {
            _ if theirs == own => Err("runsc has put it into the host's own network namespace".to_owned()),
            Some(wanted) if theirs != wanted => {
                Err("runsc has put it into another network namespace than it was given".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Takes over the networks of sandboxes that an earlier server has started, and puts right what it left.
    pub(super) async fn adopt_networks(&self, running: Vec<(WorkspaceId, i32)>) {
        let links = Arc::clone(&self.internet.links);
        let adopted = tokio::task::spawn_blocking(move || {
            // Also where no rules can be had: then what was connected is disconnected until they can.
            for (id, pid) in running {
                let namespace = Namespace::of_process(pid).map_err(|error| error.to_string());
                let adopted = namespace
                    .and_then(|namespace| links.adopt(id, &namespace).map_err(|error| error.to_string()));
                if let Err(error) = adopted {
                    tracing::warn!(workspace = %id, "the network of {id} could not be taken over: {error}");
                }
            }
            if links.enforceable().is_ok()
                && let Err(error) = links.recheck()
            {
                tracing::warn!("what is left of sandboxes' networks could not be looked at: {error}");
            }
        });
        if let Err(panic) = adopted.await {
            tracing::error!("the task that takes over networks has died: {panic}");
        }
    }

    /// Looks after the network; one that cannot be upheld is not offered.
    pub(super) async fn keep_internet(&self) {
        let result = match self.internet.offer() {
            Offer::Refused { again_at, .. } if Instant::now() < again_at => return,
            // The rules are looked after all the time, by whoever made them.
            Offer::Offered => return,
            Offer::Untried | Offer::Refused { .. } => self.try_internet().await,
        };
        if let Err(reason) = &result {
            tracing::warn!(provider = %self.kind(), reason, security = true,
                "provider {} does not offer the network internet: {reason}", self.kind());
        }
        self.internet.set_offer(match result {
            Ok(()) => Offer::Offered,
            Err(reason) => Offer::Refused { reason, again_at: Instant::now() + TRY_AGAIN_AFTER },
        });
    }

    /// Lets a running sandbox try the host and the metadata service. Somebody listens on the host's end of
    /// its link meanwhile, so that only the rules can be what holds it back.
    pub(super) async fn probe_internet(
        &self,
        id: WorkspaceId,
        connection: &Connection,
    ) -> Result<(), String> {
        let listener = TcpListener::bind((connection.gateway, 0));
        let listener = listener.map_err(|error| format!("{}: {error}", connection.gateway))?;
        let of_the_host = listener.local_addr().map_err(|error| error.to_string())?;
        let targets = [of_the_host, METADATA];
        let arguments = targets.iter().map(SocketAddr::to_string).collect::<Vec<_>>();
        let printed = self.ask_agent(id, "probe", &arguments).await?;
        judge(&targets, &printed).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_has_names_of_its_own() {
        let id = InstallationId::generate();
        let other = network_id(id);
        assert_ne!(emergent_host_net::link_prefix(id), emergent_host_net::link_prefix(other));
        assert_ne!(emergent_host_net::table_name(id), emergent_host_net::table_name(other));
        assert_eq!(network_id(other), id);
    }
}
