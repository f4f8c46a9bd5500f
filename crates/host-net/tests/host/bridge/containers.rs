//! A bridge as an engine makes it, and containers on it.

use std::io;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use emergent_host_net::Namespace;
use emergent_host_net::bridge::{BridgeRules, InPlace, Resolvers, Subnets, Survey};

use crate::world::{HOST, PRIVATE, PUBLIC, World, greet_in, ip, reach, run};

/// Where the world's resolver is: in ranges that no container may reach.
pub(crate) const RESOLVER4: &str = "10.20.0.1";
pub(crate) const RESOLVER6: &str = "fd77::1";

/// A container's namespace, with a port on the bridge.
pub(crate) struct Container {
    pub(crate) namespace: Namespace,
    pub(crate) port: String,
    pub(crate) addresses: Vec<IpAddr>,
}

/// Rules for a bridge of the world's installation, with both families.
pub(crate) fn rules(world: &World) -> BridgeRules {
    let survey = Survey::of_this_host().unwrap();
    let resolvers = [RESOLVER4, RESOLVER6].map(|address| address.parse().unwrap());
    BridgeRules {
        installation: world.installation,
        subnets: Subnets::choose(world.installation, &survey.taken).unwrap(),
        allow: Vec::new(),
        deny: Vec::new(),
        resolvers: Resolvers::new(&resolvers, true).unwrap(),
    }
}

/// What an engine does: a bridge with the gateway's addresses on a host that forwards.
pub(crate) fn make_bridge(rules: &BridgeRules) {
    let (link, subnets) = (rules.link(), rules.subnets);
    ip(&format!("link add {link} type bridge"));
    ip(&format!("addr add {}/{} dev {link}", subnets.gateway4(), subnets.range4().prefix()));
    if let Some((gateway, range)) = subnets.gateway6().zip(subnets.range6()) {
        ip(&format!("addr add {gateway}/{} dev {link} nodad", range.prefix()));
    }
    ip(&format!("link set {link} up"));
    forward();
}

pub(crate) fn forward() {
    for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        std::fs::write(format!("/proc/sys/net/{setting}"), "1").unwrap();
    }
}

/// A bridge has its address of IPv6, and the kernel has asked whether anybody else has one of the bridge's:
/// until then it asks for nobody's hardware address there.
pub(crate) fn wait_for_addresses(rules: &BridgeRules) {
    let (link, gateway) = (rules.link(), rules.subnets.gateway6().unwrap().to_string());
    let is_there = || run("ip", &format!("-6 addr show dev {link}")).contains(&gateway);
    let is_asking = || !run("ip", &format!("-6 addr show tentative dev {link}")).is_empty();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_there() || is_asking() {
        assert!(
            Instant::now() < deadline,
            "{gateway} is not there or stays tentative:\n{}",
            run("ip", "addr")
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Whether the host shows packets of all bridges to the rules for routed ones.
pub(crate) fn show_packets_of_all_bridges(value: &str) {
    for setting in ["bridge-nf-call-iptables", "bridge-nf-call-ip6tables", "bridge-nf-call-arptables"] {
        std::fs::write(format!("/proc/sys/net/bridge/{setting}"), value).unwrap();
    }
}

/// Bridge, rules and two containers, the second of which answers whoever reaches it.
pub(crate) fn on_a_bridge(world: &World) -> (InPlace, Container, Container) {
    let rules = rules(world);
    make_bridge(&rules);
    let in_place = rules.apply_here().unwrap();
    assert_eq!(in_place.verify_here().unwrap(), []);
    let (one, other) = (Container::connect(&rules), Container::connect(&rules));
    greet_in(&other.namespace);
    (in_place, one, other)
}

/// Runs `work` with the number of a process in the namespace, by which `ip` knows it.
fn with_process_in(namespace: &Namespace, work: impl FnOnce(u32)) {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut anchor =
        namespace.run(|| Command::new("cat").stdin(reader).stdout(Stdio::null()).spawn().unwrap()).unwrap();
    work(anchor.id());
    drop(writer);
    anchor.wait().unwrap();
}

/// A number for the next container of this process: its port's name and its addresses.
fn next_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(2);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Container {
    /// Connected and up, as an engine leaves it.
    pub(crate) fn connect(rules: &BridgeRules) -> Self {
        let namespace = Namespace::make().unwrap();
        Self::connect_namespace(namespace, rules)
    }

    pub(crate) fn connect_namespace(namespace: Namespace, rules: &BridgeRules) -> Self {
        let number = next_number();
        let (port, subnets) = (format!("vethc{number}"), rules.subnets);
        with_process_in(&namespace, |process| {
            ip(&format!("link add {port} type veth peer name eth0 netns {process}"));
        });
        ip(&format!("link set {port} master {} up", rules.link()));
        let v4 = std::net::Ipv4Addr::from_bits(subnets.gateway4().to_bits() + number);
        let v6 = subnets
            .gateway6()
            .map(|gateway| std::net::Ipv6Addr::from_bits(gateway.to_bits() + u128::from(number)));
        namespace
            .run(|| {
                ip("link set lo up");
                // Its own address of the link is usable at once.
                std::fs::write("/proc/sys/net/ipv6/conf/eth0/accept_dad", "0").unwrap();
                ip(&format!("addr add {v4}/{} dev eth0", subnets.range4().prefix()));
                if let (Some(v6), Some(range)) = (v6, subnets.range6()) {
                    ip(&format!("addr add {v6}/{} dev eth0 nodad", range.prefix()));
                }
                ip("link set eth0 up");
                ip(&format!("route add default via {}", subnets.gateway4()));
                if let Some(gateway) = subnets.gateway6() {
                    ip(&format!("-6 route add default via {gateway}"));
                }
            })
            .unwrap();
        let addresses = std::iter::once(IpAddr::V4(v4)).chain(v6.map(IpAddr::V6)).collect();
        Self { namespace, port, addresses }
    }

    pub(crate) fn reach(&self, address: &str) -> io::Result<String> {
        self.namespace.run(|| reach(address)).unwrap()
    }

    /// The internet, in both families where the network has both; seen under the host's address.
    pub(crate) fn reaches_what_it_may(&self) {
        let seen = ["192.31.196.2", "2620:4f:8000:f::2"];
        for (address, seen) in PUBLIC.iter().zip(seen).take(self.addresses.len()) {
            let reached = self.reach(address);
            assert_eq!(reached.as_deref().ok(), Some(seen), "{address}: {reached:?}\n{}", everything());
        }
    }

    /// Private ranges, the metadata service, the host with the bridge itself, and another
    /// container, in both families.
    pub(crate) fn is_denied_the_rest(&self, rules: &BridgeRules, other: &Self) {
        let gateways =
            [Some(rules.subnets.gateway4().to_string()), rules.subnets.gateway6().map(|v6| v6.to_string())];
        let neighbour = other.addresses.iter().map(IpAddr::to_string);
        let more: Vec<String> = gateways.into_iter().flatten().chain(neighbour).collect();
        for address in PRIVATE.iter().chain(&HOST).copied().chain(more.iter().map(String::as_str)) {
            assert!(self.reach(address).is_err(), "{address} was reached\n{}", everything());
        }
    }
}

/// For whoever reads a failure.
pub(crate) fn everything() -> String {
    run("nft", "list ruleset")
}
