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
pub(crate) const METADATA: SocketAddr =
    SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(169, 254, 169, 254)), 80);

impl Host {
    /// Lets a running sandbox try the host and the metadata service. Somebody listens on the bridge's addresses
    /// meanwhile, so that only the rules can be what holds it back: this process, or a helper on the engine's
    /// host. Where a helper has no program for that, what is left is that it has listed the rules from the
    /// kernel when it had put them there.
    pub(crate) async fn probe_internet(
        &self,
        docker: &Docker,
        id: WorkspaceId,
        connection: &Connection,
    ) -> Result<(), NoInternet> {
        if connection.is_here {
            let listeners = listen(&connection.gateways)?;
            let targets = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>();
            let targets = targets.map_err(|error| NoInternet::Trial(error.to_string()))?;
            return self.is_held_back(docker, id, targets).await;
        }
        let Some(gateway) = connection.gateways.first() else { return Err(nobody_listens("")) };
        match self.listen_by_helper(docker, *gateway).await? {
            Some(listener) => {
                let tried = self.is_held_back(docker, id, vec![listener.target]).await;
                self.remove_scratch(docker, &listener.name).await?;
                tried
            }
            None => {
                tracing::warn!(
                    security = true,
                    "the image of helpers has neither perl nor python3: that sandboxes do not reach the engine's \
                     host is not tried"
                );
                self.is_held_back(docker, id, Vec::new()).await
            }
        }
    }

    /// Lets a sandbox try these and the metadata service.
    async fn is_held_back(
        &self,
        docker: &Docker,
        id: WorkspaceId,
        mut targets: Vec<SocketAddr>,
    ) -> Result<(), NoInternet> {
        targets.push(METADATA);
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

/// On every address that is usable already; one that cannot be connected to proves nothing, and neither does
/// none.
fn listen(addresses: &[IpAddr]) -> Result<Vec<TcpListener>, NoInternet> {
    let (mut listeners, mut reasons) = (Vec::new(), String::new());
    for address in addresses {
        match TcpListener::bind((*address, 0)) {
            Ok(listener) => listeners.push(listener),
            Err(error) => reasons.push_str(&format!("; {address}: {error}")),
        }
    }
    if listeners.is_empty() { Err(nobody_listens(&reasons)) } else { Ok(listeners) }
}

fn nobody_listens(reasons: &str) -> NoInternet {
    NoInternet::Trial(format!("nobody could listen on the addresses of the containers' bridge{reasons}"))
}

/// Every target must have been tried, and none reached.
pub(crate) fn judge(targets: &[SocketAddr], printed: &str) -> Result<(), NoInternet> {
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
    fn a_trial_that_cannot_fail_is_none() {
        assert_eq!(listen(&["127.0.0.1".parse().unwrap(), "192.0.2.1".parse().unwrap()]).unwrap().len(), 1);
        for nobody in [&[][..], &["192.0.2.1".parse().unwrap()]] {
            assert!(matches!(listen(nobody), Err(NoInternet::Trial(_))), "{nobody:?}");
        }
    }

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
