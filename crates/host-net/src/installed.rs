//! What is in place on the host beside the sandboxes' links.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use emergent_types::WorkspaceId;

use crate::cidr::Cidr;
use crate::command::{self, block_on};
use crate::denied::is_denied;
use crate::error::NetworkError;
use crate::firewall::{self, Passage};
use crate::forwarding::{self, Uplinks};
use crate::names::{link_alias, link_prefix, number_of, workspace_of};
use crate::netlink::{Link, Netlink, Route};
use crate::network::Repair;
use crate::options::Options;
use crate::pool::{Pair, Pool};
use crate::rules::{Listing, Rules};
use crate::watch::generation;

/// The usual size of a packet, and the least that IPv6 allows.
const MTU: std::ops::RangeInclusive<u32> = 1280..=1500;

/// What is in place.
pub(crate) struct Installed {
    pub(crate) rules: Rules,
    /// What the kernel showed when they had just been put there.
    listing: Listing,
    /// How often the kernel's rules had been changed when they were last seen as they should be.
    generation: Option<u32>,
    pub(crate) mtu: u32,
}

/// Links, routes and addresses of the host now.
struct Surroundings {
    ours: BTreeSet<u32>,
    links: Vec<Link>,
    routes: Vec<Route>,
    addresses: Vec<(u32, IpAddr)>,
}

impl Surroundings {
    async fn look(options: &Options) -> Result<Self, NetworkError> {
        let netlink = Netlink::open()?;
        let prefix = link_prefix(options.installation);
        let links = netlink.links().await?;
        Ok(Self {
            ours: links.iter().filter(|link| link.name.starts_with(&prefix)).map(|link| link.index).collect(),
            links,
            routes: netlink.routes().await?,
            addresses: netlink.addresses().await?,
        })
    }

    fn is_ours(&self, link: Option<u32>) -> bool {
        link.is_some_and(|index| self.ours.contains(&index))
    }

    /// The host's addresses on the sandboxes' links.
    fn gateway(&self) -> (Option<Ipv4Addr>, Option<Ipv6Addr>) {
        let mut gateway = (None, None);
        for (_, address) in self.addresses.iter().filter(|(link, _)| self.ours.contains(link)) {
            match address {
                IpAddr::V4(v4) => gateway.0 = Some(*v4),
                IpAddr::V6(v6) => gateway.1 = Some(*v6),
            }
        }
        gateway
    }

    /// The pool in use, or one that clashes with nothing.
    fn pool(&self, options: &Options) -> Result<Pool, NetworkError> {
        let gateway = self.gateway();
        let routes = self.routes.iter().filter(|route| !self.is_ours(route.link)).map(|route| route.range);
        let addresses = self.addresses.iter().filter(|(link, _)| !self.ours.contains(link));
        let taken: Vec<Cidr> = routes
            .chain(addresses.map(|(_, address)| Cidr::new(*address, 128)))
            .chain(options.egress_allow.iter().copied())
            .collect();
        let chosen = Pool::choose(options.installation, &taken);
        match (gateway, chosen) {
            ((Some(v4), Some(v6)), _) => Ok(Pool::of_gateway(Pair { v4, v6 })),
            ((Some(v4), None), Some(chosen)) => Ok(Pool::of_gateway(Pair { v4, v6: chosen.gateway().v6 })),
            (_, Some(chosen)) => Ok(chosen),
            (_, None) => Err(NetworkError::Unenforceable(
                "the host's routes leave no private range of addresses for sandboxes".to_owned(),
            )),
        }
    }

    /// The links that answers can arrive on: those of all routes, of whichever table, that lead to
    /// something that sandboxes may reach. A default route is only one of them: there are others
    /// for a half of the internet, for marked packets, and to public networks right at the host.
    fn uplinks(&self, options: &Options) -> Uplinks {
        let mut uplinks = Uplinks::default();
        for route in self.routes.iter().filter(|route| !self.is_ours(route.link)) {
            let Some(link) = self.links.iter().find(|link| Some(link.index) == route.link) else { continue };
            let names = if route.range.is_v4() { &mut uplinks.v4 } else { &mut uplinks.v6 };
            if link.name == "lo" || names.contains(&link.name) {
                continue;
            }
            let opened = options.egress_allow.iter().any(|range| range.overlaps(&route.range));
            if opened || !is_denied(&route.range) {
                names.insert(link.name.clone());
            }
        }
        uplinks
    }

    fn mtu(&self, uplinks: &Uplinks) -> u32 {
        let of_uplinks = self
            .links
            .iter()
            .filter(|link| uplinks.v4.contains(&link.name) || uplinks.v6.contains(&link.name))
            .map(|link| link.mtu);
        of_uplinks.min().unwrap_or(*MTU.end()).clamp(*MTU.start(), *MTU.end())
    }

    /// Which address every connected sandbox has: its link says so, or else its route.
    fn connected(&self, options: &Options, pool: Pool) -> BTreeMap<WorkspaceId, u32> {
        self.links
            .iter()
            .filter(|link| self.ours.contains(&link.index))
            .filter_map(|link| {
                let alias = link.alias.as_deref()?;
                let workspace = workspace_of(alias, options.installation)?;
                if let Some(number) = number_of(alias, options.installation) {
                    return Some((workspace, number));
                }
                // One without an address yet has none that another could be given.
                Some((workspace, self.number_by_route(link, pool).unwrap_or(0)))
            })
            .collect()
    }

    /// The number of a sandbox's address, as long as its link is up.
    fn number_by_route(&self, link: &Link, pool: Pool) -> Option<u32> {
        let routes = self.routes.iter().filter(|route| route.link == Some(link.index));
        routes
            .filter_map(|route| match route.range.address() {
                IpAddr::V4(address) => pool.number_of(address),
                IpAddr::V6(_) => None,
            })
            .next()
    }
}

impl Installed {
    /// Every connected sandbox, with the number of its address.
    pub(crate) async fn connected(options: &Options) -> Result<BTreeMap<WorkspaceId, u32>, NetworkError> {
        let around = Surroundings::look(options).await?;
        if around.ours.is_empty() {
            return Ok(BTreeMap::new());
        }
        Ok(around.connected(options, around.pool(options)?))
    }

    /// Writes the numbers of sandboxes' addresses into the aliases of their links, where an earlier
    /// version has not: once a link is down, nothing else tells them.
    pub(crate) async fn note_numbers(options: &Options) -> Result<(), NetworkError> {
        let around = Surroundings::look(options).await?;
        let Some(v4) = around.gateway().0 else { return Ok(()) };
        let pool = Pool::of_gateway(Pair { v4, v6: Ipv6Addr::UNSPECIFIED });
        let netlink = Netlink::open()?;
        for link in around.links.iter().filter(|link| around.ours.contains(&link.index)) {
            let alias = link.alias.as_deref().unwrap_or_default();
            if number_of(alias, options.installation).is_some() {
                continue;
            }
            let workspace = workspace_of(alias, options.installation);
            if let Some((workspace, number)) = workspace.zip(around.number_by_route(link, pool)) {
                netlink.set_alias(link.index, link_alias(options.installation, workspace, number)).await?;
            }
        }
        Ok(())
    }

    /// Puts the rules in place; what an earlier server left is replaced in one step. To be
    /// completed by [`repair`](Self::repair).
    pub(crate) async fn deny(options: &Options) -> Result<Self, NetworkError> {
        let around = Surroundings::look(options).await?;
        let before = Listing::of(options.installation).await?;
        let guarded_before = before.map(|listing| listing.guarded()).unwrap_or_default();
        let uplinks = around.uplinks(options);
        let rules = Rules {
            installation: options.installation,
            pool: around.pool(options)?,
            allow: options.egress_allow.clone(),
            guarded: uplinks.to_guard(&guarded_before),
        };
        let listing = rules.apply().await?;
        Ok(Self { rules, listing, generation: None, mtu: around.mtu(&uplinks) })
    }

    /// Puts right what somebody else has changed.
    pub(crate) async fn repair(&mut self, options: &Options) -> Result<Repair, NetworkError> {
        let around = Surroundings::look(options).await?;
        let uplinks = around.uplinks(options);
        let guarded = uplinks.to_guard(&self.rules.guarded);
        let found = Listing::of(options.installation).await?;
        let changed = found.as_ref() != Some(&self.listing);
        let wanted = Rules { guarded, ..self.rules.clone() };
        if changed || wanted != self.rules {
            self.listing = wanted.apply().await?;
            self.rules = wanted;
        }
        uplinks.switch_on().map_err(NetworkError::system("forwarding"))?;
        let accepts = firewall::ensure(&Passage::of_links(options.installation)).await?;
        self.mtu = around.mtu(&uplinks);
        self.note_generation(options).await?;
        Ok(Repair { rules: changed, accepts })
    }

    /// Counts from now on, if the rules are still as they were made.
    async fn note_generation(&mut self, options: &Options) -> Result<(), NetworkError> {
        let now = generation().map_err(NetworkError::system("generation of rules"))?;
        if Listing::of(options.installation).await?.as_ref() == Some(&self.listing) {
            self.generation = Some(now);
            return Ok(());
        }
        Err(NetworkError::Unenforceable("somebody else changes the rules of the sandboxes".to_owned()))
    }

    /// Whether nobody has changed any rule of the kernel's since ours were last seen as they should
    /// be. Takes some microseconds.
    pub(crate) fn is_untouched(&self) -> bool {
        generation().is_ok_and(|now| self.generation == Some(now))
    }

    /// Whether the rules are in place for certain.
    pub(crate) async fn denies(&self, options: &Options) -> bool {
        let listed = async || Listing::of(options.installation).await.ok().flatten();
        self.is_untouched() || listed().await.as_ref() == Some(&self.listing)
    }
}

/// Whether the rules could be put in place.
pub(crate) fn enforceable(options: &Options) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err(
            "the server is not root, which a network for sandboxes needs; start it as root".to_owned()
        );
    }
    if command::find("nft").is_none() {
        return Err("nft is not installed; install the package nftables".to_owned());
    }
    let rules = Rules {
        installation: options.installation,
        pool: Pool::of_gateway(Pair { v4: Ipv4Addr::new(10, 0, 0, 1), v6: Ipv6Addr::LOCALHOST }),
        allow: options.egress_allow.clone(),
        guarded: Uplinks::default(),
    };
    block_on(rules.check()).map_err(|error| {
        format!("the kernel does not take the network rules, which need CAP_NET_ADMIN and nftables: {error}")
    })?;
    let generation = generation();
    generation
        .map_err(|error| format!("changes of the kernel's network rules cannot be noticed: {error}"))?;
    let forwards = forwarding::read("ipv4", "default", "forwarding").as_deref() == Some("1");
    let setting = forwarding::setting("ipv4", "default", "forwarding");
    if !forwards && !is_writable(&setting) {
        return Err(format!(
            "{} is read-only, so that no packet can be passed on; run the server where /proc/sys is writable",
            setting.display()
        ));
    }
    Ok(())
}

fn is_writable(path: &std::path::Path) -> bool {
    std::fs::File::options().write(true).open(path).is_ok()
}
