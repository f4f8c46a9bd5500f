//! A sandbox of our own that tries to get where no sandbox may.

use std::net::{IpAddr, SocketAddr, TcpListener};

use bollard::Docker;
use emergent_provider::{Operation, ProviderError};
use emergent_types::WorkspaceId;

use super::{Connection, NoInternet};
use crate::agent_volume;
use crate::disk::collect;
use crate::host::Host;

/// Where clouds keep the secrets of their machines.
const METADATA: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(169, 254, 169, 254)), 80);

impl Host {
    /// Lets a running sandbox try the host and the metadata service. Where the bridge is here, somebody
    /// listens on its addresses meanwhile, so that only the rules can be what holds it back.
    pub(crate) async fn probe_internet(
        &self,
        docker: &Docker,
        id: WorkspaceId,
        connection: &Connection,
    ) -> Result<(), NoInternet> {
        let listeners = if connection.is_here { listen(&connection.gateways) } else { Vec::new() };
        let of_the_host = listeners.iter().filter_map(|listener| listener.local_addr().ok());
        let targets: Vec<SocketAddr> = of_the_host.chain([METADATA]).collect();
        let mut command = vec![agent_volume::PROGRAM.to_owned(), "probe".to_owned()];
        command.extend(targets.iter().map(SocketAddr::to_string));
        let (output, _input) = self
            .exec(docker, id, command)
            .await?
            .ok_or_else(|| NoInternet::Trial("it ended before it could".to_owned()))?;
        judge(&targets, &collect(output).await)
    }

    /// How it is told that a network which a request names cannot be had.
    pub(crate) fn no_internet(
        &self,
        operation: Operation,
        id: WorkspaceId,
        reason: &NoInternet,
    ) -> ProviderError {
        match reason {
            NoInternet::Engine(error) => self.step(operation, id, "network", error),
            other => ProviderError::NotEnforceable {
                provider: self.kind(),
                what: "network",
                reason: other.to_string(),
            },
        }
    }
}

fn listen(addresses: &[IpAddr]) -> Vec<TcpListener> {
    // An address may not be usable yet; the others will do.
    addresses.iter().filter_map(|address| TcpListener::bind((*address, 0)).ok()).collect()
}

/// Every target must have been tried, and none reached.
fn judge(targets: &[SocketAddr], printed: &str) -> Result<(), NoInternet> {
    for target in targets {
        let wanted = target.to_string();
        let outcome =
            printed.lines().filter_map(|line| line.split_once(' ')).find(|(tried, _)| *tried == wanted);
        match outcome {
            Some((_, "closed")) => {}
            Some(_) => return Err(NoInternet::Reached(wanted)),
            None => return Err(NoInternet::Trial(format!("it did not say whether it reached {wanted}"))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_no_proof() {
        let targets: Vec<SocketAddr> = ["10.1.0.1:8000", "[fd00::1]:8001", "169.254.169.254:80"]
            .map(|text| text.parse().unwrap())
            .into();
        let good = "10.1.0.1:8000 closed\n[fd00::1]:8001 closed\n169.254.169.254:80 closed\n";
        assert!(judge(&targets, good).is_ok());
        let reached = good.replace("[fd00::1]:8001 closed", "[fd00::1]:8001 reached");
        assert!(
            matches!(judge(&targets, &reached), Err(NoInternet::Reached(what)) if what == "[fd00::1]:8001")
        );
        for bad in ["", "10.1.0.1:8000 closed\n", &good.replace(' ', "")] {
            assert!(matches!(judge(&targets, bad), Err(NoInternet::Trial(_))), "{bad:?}");
        }
    }
}
