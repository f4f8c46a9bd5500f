//! The bridge network of an installation, with Docker.

use std::collections::HashMap;
use std::net::IpAddr;

use bollard::Docker;
use bollard::models::{Ipam, IpamConfig, NetworkCreateRequest, NetworkInspect};
use bollard::query_parameters::{InspectNetworkOptions, ListNetworksOptions};
use emergent_host_net::bridge::{Subnets, UnfitSubnets};
use emergent_host_net::{Cidr, bridge_link_name};

use crate::engine::{EngineError, MissingIsFine};
use crate::names::{INSTALLATION, Names};

const DRIVER: &str = "bridge";
const LINK_OPTION: &str = "com.docker.network.bridge.name";
const BETWEEN_CONTAINERS_OPTION: &str = "com.docker.network.bridge.enable_icc";

/// The network as it is.
#[derive(Debug, Clone)]
pub(super) struct EngineNetwork {
    pub(super) name: String,
    pub(super) subnets: Subnets,
    /// Ranges of Docker's other networks.
    pub(super) others: Vec<Cidr>,
    /// Made just now.
    is_new: bool,
}

/// Why there is none that can be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnfitNetwork {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(
        "Docker's network {name} is not as this installation makes it: {why}; remove it (docker network rm {name})"
    )]
    Foreign { name: String, why: String },
    #[error("no range of private addresses is free for the containers' network")]
    NoAddresses,
}

impl EngineNetwork {
    pub(super) async fn remove_if_new(&self, docker: &Docker) -> Result<(), EngineError> {
        if self.is_new {
            docker.remove_network(&self.name).await.missing_is_fine()?;
        }
        Ok(())
    }
}

/// Finds the installation's network, or makes it with addresses of which none is `taken`. Two
/// providers of one installation share it: who is second finds what the first has made.
pub(super) async fn ensure(
    docker: &Docker,
    names: &Names,
    taken: &[Cidr],
    ipv6: bool,
) -> Result<EngineNetwork, UnfitNetwork> {
    let link = bridge_link_name(names.installation);
    if let Some(found) = find(docker, names, &link).await? {
        return Ok(found);
    }
    let others = ranges_of_others(docker, &link).await?;
    let taken: Vec<Cidr> = taken.iter().chain(&others).copied().collect();
    let chosen = Subnets::choose(names.installation, &taken).ok_or(UnfitNetwork::NoAddresses)?;
    let chosen = if ipv6 { chosen } else { chosen.without_ipv6() };
    let made = docker.create_network(request(names, &link, chosen)).await.map_err(EngineError::from);
    let is_new = made.is_ok();
    match (made, find(docker, names, &link).await?) {
        (_, Some(found)) => Ok(EngineNetwork { is_new, ..found }),
        (Err(error), None) => Err(error.into()),
        (Ok(_), None) => {
            Err(UnfitNetwork::Foreign { name: link, why: "it was made and is not there".to_owned() })
        }
    }
}

async fn find(docker: &Docker, names: &Names, link: &str) -> Result<Option<EngineNetwork>, UnfitNetwork> {
    let inspected = docker.inspect_network(link, None::<InspectNetworkOptions>).await;
    let network = match inspected.map_err(EngineError::from) {
        Err(error) if error.is_not_found() => return Ok(None),
        network => network?,
    };
    let subnets = read(names, link, &network)
        .map_err(|why| UnfitNetwork::Foreign { name: link.to_owned(), why: why.to_string() })?;
    let others = ranges_of_others(docker, link).await?;
    Ok(Some(EngineNetwork { name: link.to_owned(), subnets, others, is_new: false }))
}

/// What is wrong with a network of our name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum NotOurs {
    #[error("it does not carry the installation's label")]
    Label,
    #[error("its link has another name, or it is no bridge")]
    Link,
    #[error(transparent)]
    Addresses(#[from] UnfitSubnets),
}

fn read(names: &Names, link: &str, network: &NetworkInspect) -> Result<Subnets, NotOurs> {
    let has = |values: &Option<HashMap<String, String>>, name: &str, value: &str| {
        values.as_ref().and_then(|values| values.get(name)).is_some_and(|found| found == value)
    };
    if !has(&network.labels, INSTALLATION, &names.installation.to_string()) {
        return Err(NotOurs::Label);
    }
    if network.driver.as_deref() != Some(DRIVER) || !has(&network.options, LINK_OPTION, link) {
        return Err(NotOurs::Link);
    }
    let listed: Vec<(Cidr, IpAddr)> = configs(network.ipam.as_ref())
        .filter_map(|config| {
            let gateway = config.gateway.as_deref()?;
            // Some versions write it with the length of the range.
            let gateway = gateway.split_once('/').map_or(gateway, |(address, _)| address);
            Some((config.subnet.as_deref()?.parse().ok()?, gateway.parse().ok()?))
        })
        .collect();
    Ok(Subnets::new(&listed)?)
}

fn configs(ipam: Option<&Ipam>) -> impl Iterator<Item = &IpamConfig> {
    ipam.and_then(|ipam| ipam.config.as_ref()).into_iter().flatten()
}

async fn ranges_of_others(docker: &Docker, link: &str) -> Result<Vec<Cidr>, EngineError> {
    let listed = docker.list_networks(None::<ListNetworksOptions>).await?;
    let mut ranges: Vec<Cidr> = listed
        .iter()
        .filter(|network| network.name.as_deref() != Some(link))
        .flat_map(|network| configs(network.ipam.as_ref()))
        .filter_map(|config| config.subnet.as_deref()?.parse().ok())
        .collect();
    ranges.sort();
    ranges.dedup();
    Ok(ranges)
}

fn request(names: &Names, link: &str, subnets: Subnets) -> NetworkCreateRequest {
    let config = |range: Cidr, gateway: IpAddr| IpamConfig {
        subnet: Some(range.to_string()),
        gateway: Some(gateway.to_string()),
        ..IpamConfig::default()
    };
    let v4 = config(subnets.range4(), subnets.gateway4().into());
    let v6 = subnets.range6().zip(subnets.gateway6()).map(|(range, gateway)| config(range, gateway.into()));
    let options = [(LINK_OPTION, link), (BETWEEN_CONTAINERS_OPTION, "false")];
    NetworkCreateRequest {
        name: link.to_owned(),
        driver: Some(DRIVER.to_owned()),
        enable_ipv6: Some(v6.is_some()),
        ipam: Some(Ipam { config: Some([v4].into_iter().chain(v6).collect()), ..Ipam::default() }),
        options: Some(options.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
        // The installation's alone: its providers share it.
        labels: Some([(INSTALLATION.to_owned(), names.installation.to_string())].into()),
        ..NetworkCreateRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use emergent_types::{InstallationId, ProviderKind};

    use super::*;

    #[test]
    fn only_what_was_made_like_this_is_taken_for_ours() {
        let names = Names { installation: InstallationId::generate(), provider: ProviderKind::Gvisor };
        let link = bridge_link_name(names.installation);
        let subnets = Subnets::choose(names.installation, &[]).unwrap();
        let made = request(&names, &link, subnets);
        let seen = |change: fn(&mut NetworkInspect)| {
            let mut network = NetworkInspect {
                driver: made.driver.clone(),
                ipam: made.ipam.clone(),
                options: made.options.clone(),
                labels: made.labels.clone(),
                ..NetworkInspect::default()
            };
            change(&mut network);
            read(&names, &link, &network)
        };
        assert_eq!(seen(|_| {}), Ok(subnets));
        assert_eq!(seen(|network| network.labels = None), Err(NotOurs::Label));
        assert_eq!(seen(|network| network.driver = Some("macvlan".to_owned())), Err(NotOurs::Link));
        assert_eq!(seen(|network| network.options = None), Err(NotOurs::Link));
        assert!(matches!(seen(|network| network.ipam = None), Err(NotOurs::Addresses(_))));
        let with_length = seen(|network| {
            for config in network.ipam.iter_mut().flat_map(|ipam| ipam.config.iter_mut().flatten()) {
                config.gateway = config.gateway.take().map(|gateway| format!("{gateway}/16"));
            }
        });
        assert_eq!(with_length, Ok(subnets));
    }
}
