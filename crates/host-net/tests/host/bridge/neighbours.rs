//! Containers on the same bridge.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use emergent_host_net::bridge::{BridgeRules, Flaw, Separation};
use emergent_host_net::bridge_table_name;

use super::containers::{
    Container, make_bridge, on_a_bridge, rules, show_packets_of_all_bridges, wait_for_addresses,
};
use crate::egress::{datagram_arrives, translate};
use crate::world::{World, greet_in, ip, on_a_host, reach, run};

/// Addresses that every link has by itself.
fn link_local(container: &Container) -> String {
    let shown = container.namespace.run(|| run("ip", "-6 -o addr show dev eth0 scope link")).unwrap();
    let address = shown.split_whitespace().find(|word| word.starts_with("fe80")).unwrap();
    address.split('/').next().unwrap().to_owned()
}

/// Whether a datagram from one to the other arrives; `to` may be an address for everybody.
fn datagram(one: &Container, other: &Container, to: &str) -> bool {
    let port = 5353;
    let receiver = other
        .namespace
        .run(|| UdpSocket::bind((if to.contains(':') { "::" } else { "0.0.0.0" }, port)).unwrap());
    let receiver = receiver.unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
    let send = || {
        let scope: u32 = run("ip", "-o link show eth0").split(':').next().unwrap().parse().unwrap();
        match to.parse::<IpAddr>().unwrap() {
            IpAddr::V4(to) => {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                socket.set_broadcast(true).unwrap();
                let _ = socket.send_to(b"x", (to, port));
            }
            IpAddr::V6(to) => {
                let socket = UdpSocket::bind("[::]:0").unwrap();
                let _ = socket.send_to(b"x", std::net::SocketAddrV6::new(to, port, 0, scope));
            }
        }
    };
    one.namespace.run(send).unwrap();
    receiver.recv(&mut [0; 8]).is_ok()
}

/// By which the one learns the other's hardware address.
fn knows(one: &Container, other: &Container) -> bool {
    let shown = one.namespace.run(|| run("ip", "neigh show")).unwrap();
    other.addresses.iter().any(|address| {
        shown.lines().any(|line| line.starts_with(&format!("{address} ")) && line.contains("lladdr"))
    })
}

fn hear_nothing_of_each_other(one: &Container, other: &Container) {
    for address in &other.addresses {
        assert!(one.reach(&address.to_string()).is_err(), "{address} was reached");
    }
    let own = link_local(other);
    let everybody = ["255.255.255.255".to_owned(), "ff02::1".to_owned(), own];
    for to in other.addresses.iter().map(IpAddr::to_string).chain(everybody) {
        assert!(!datagram(one, other, &to), "a datagram to {to} has arrived");
    }
    assert!(!knows(one, other), "one knows the other");
}

/// As on a bridge without rules.
fn before_the_rules(world: &World) -> (BridgeRules, Container, Container) {
    let rules = rules(world);
    make_bridge(&rules);
    let (one, other) = (Container::connect(&rules), Container::connect(&rules));
    greet_in(&other.namespace);
    for to in other.addresses.iter().map(IpAddr::to_string).chain([link_local(&other), "ff02::1".to_owned()])
    {
        assert!(datagram(&one, &other, &to), "{to} is not reached without rules");
    }
    for container in [&one, &other] {
        container.namespace.run(|| ip("neigh flush dev eth0")).unwrap();
    }
    (rules, one, other)
}

#[test]
fn they_do_not_reach_each_other_whatever_the_host_shows_of_its_bridges() {
    for shown in ["0", "1"] {
        on_a_host(|world| {
            show_packets_of_all_bridges(shown);
            let (rules, one, other) = before_the_rules(&world);
            let in_place = rules.apply_here().unwrap();
            assert_eq!(in_place.verify_here().unwrap(), []);
            hear_nothing_of_each_other(&one, &other);
            one.reaches_what_it_may();
            other.reaches_what_it_may();
        });
    }
}

/// A kernel that does not take the better form says so of the one thing that it lacks: nothing else is
/// wrong with it.
#[test]
fn only_an_older_kernel_refuses_the_better_form() {
    on_a_host(|world| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.nft");
        std::fs::write(&file, rules(&world).script(Separation::ByBridge)).unwrap();
        let output = std::process::Command::new("nft").args(["-c", "-f"]).arg(&file).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let errors: Vec<&str> = said.lines().filter(|line| line.contains("Error: ")).collect();
        assert_eq!(errors.is_empty(), output.status.success(), "{said}");
        assert!(errors.iter().all(|line| line.ends_with("Operation not supported")), "{said}");
        assert!(
            said.lines().filter(|line| line.contains("meta ")).all(|line| line.contains("brname")),
            "{said}"
        );
    });
}

/// Neither by the gateway, which would send it back to the same bridge.
#[test]
fn they_do_not_reach_each_other_through_the_gateway() {
    on_a_host(|world| {
        let (in_place, one, other) = on_a_bridge(&world);
        let subnets = in_place.rules().subnets;
        let direct = || {
            ip(&format!("route replace {} via {}", other.addresses[0], subnets.gateway4()));
            ip(&format!("-6 route replace {} via {}", other.addresses[1], subnets.gateway6().unwrap()));
        };
        one.namespace.run(direct).unwrap();
        for address in &other.addresses {
            assert!(one.reach(&address.to_string()).is_err(), "{address} was reached through the gateway");
        }
    });
}

/// Where the kernel cannot tell the bridge, its own setting matters: it is set, watched and set again.
#[test]
fn a_bridge_that_stops_showing_its_packets_is_noticed() {
    on_a_host(|world| {
        show_packets_of_all_bridges("0");
        let (mut in_place, one, other) = on_a_bridge(&world);
        if in_place.separation() == Separation::ByBridge {
            return hear_nothing_of_each_other(&one, &other);
        }
        let link = in_place.rules().link();
        ip(&format!("link set {link} type bridge nf_call_iptables 0 nf_call_ip6tables 0"));
        assert_eq!(in_place.verify_here().unwrap(), [Flaw::PacketsNotShown]);
        // What carries an address of the network does not pass even so.
        for address in &other.addresses {
            assert!(one.reach(&address.to_string()).is_err(), "{address} was reached");
        }
        in_place.repair().unwrap();
        assert_eq!(in_place.verify_here().unwrap(), []);
        hear_nothing_of_each_other(&one, &other);
    });
}

/// Somebody who says that the gateway is where he is.
#[test]
fn nobody_takes_the_gateways_place() {
    on_a_host(|world| {
        let (in_place, one, other) = on_a_bridge(&world);
        let gateway = in_place.rules().subnets.gateway4();
        let claim = || {
            ip(&format!("addr add {gateway}/32 dev eth0"));
            std::fs::write("/proc/sys/net/ipv4/conf/eth0/arp_notify", "1").unwrap();
            ip("link set eth0 down");
            ip("link set eth0 up");
            std::thread::sleep(Duration::from_millis(300));
            reach("192.175.48.10").is_ok()
        };
        one.namespace.run(claim).unwrap();
        other.reaches_what_it_may();
        let known = other.namespace.run(|| run("ip", &format!("neigh show {gateway}"))).unwrap();
        let bridge = run("ip", &format!("-o link show {}", in_place.rules().link()));
        let own = bridge.split("link/ether ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
        assert!(known.contains(&own), "{known} {bridge}");
    });
}

/// Nor does the host begin anything with them.
#[test]
fn the_host_begins_nothing_with_a_container() {
    on_a_host(|world| {
        let (mut in_place, one, other) = on_a_bridge(&world);
        let addresses: Vec<String> = other.addresses.iter().map(IpAddr::to_string).collect();
        translate("192.0.2.77", &addresses[0]);
        let table = bridge_table_name(world.installation);
        let arrive = || {
            let ways = addresses.iter().map(String::as_str).chain(["192.0.2.77"]);
            ways.map(|address| datagram_arrives(&other.namespace, address)).collect::<Vec<_>>()
        };
        assert_eq!(arrive(), [false; 3]);
        for address in &addresses {
            assert_eq!(
                reach(address).unwrap_err().kind(),
                std::io::ErrorKind::ConnectionRefused,
                "{address}"
            );
        }
        one.reaches_what_it_may();
        wait_for_addresses(in_place.rules());
        for chain in ["output", "delivered"] {
            run("nft", &format!("flush chain inet {table} {chain}"));
        }
        assert_eq!(arrive(), [true; 3], "nothing else holds it back");
        assert!(in_place.repair().unwrap().rules);
        assert_eq!(arrive(), [false; 3]);
    });
}
