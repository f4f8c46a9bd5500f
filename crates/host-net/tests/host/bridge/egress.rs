//! What a container reaches.

use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use emergent_host_net::Namespace;
use emergent_host_net::bridge::{Flaw, remove_here};

use super::containers::{Container, make_bridge, on_a_bridge, rules};
use crate::world::{HOST, PRIVATE, PUBLIC, ip, on_a_host, reach, run};

#[test]
fn the_internet_and_nothing_else() {
    on_a_host(|world| {
        for address in PUBLIC.iter().chain(&PRIVATE).chain(&HOST) {
            assert!(reach(address).is_ok(), "the host itself must reach {address} for this to mean anything");
        }
        let (in_place, one, other) = on_a_bridge(&world);
        one.reaches_what_it_may();
        one.is_denied_the_rest(in_place.rules(), &other);
        // Refused and not dropped: nobody waits.
        let start = Instant::now();
        assert!(one.reach(PRIVATE[0]).is_err() && one.reach(HOST[0]).is_err());
        assert!(start.elapsed() < Duration::from_millis(1400));
    });
}

/// Where the rules are not, everything is reached: it is they that deny it.
#[test]
fn it_is_the_rules_that_deny() {
    on_a_host(|world| {
        let (in_place, one, other) = on_a_bridge(&world);
        let (rules, link) = (in_place.rules().clone(), in_place.rules().link());
        remove_here(rules.installation).unwrap();
        run("nft", "add table inet plain");
        run("nft", "add chain inet plain nat { type nat hook postrouting priority 100 ; }");
        run("nft", &format!("add rule inet plain nat oifname != {link} masquerade"));
        for address in
            [PRIVATE[0], "169.254.169.254", "fd77::1", HOST[0], HOST[2], &other.addresses[0].to_string()]
        {
            assert!(one.reach(address).is_ok(), "{address} is not reached");
        }
        let again = rules.apply_here().unwrap();
        assert_eq!(again.verify_here().unwrap(), []);
        one.is_denied_the_rest(&rules, &other);
    });
}

#[test]
fn a_network_without_ipv6_has_none() {
    on_a_host(|world| {
        let mut rules = rules(&world);
        rules.subnets = rules.subnets.without_ipv6();
        make_bridge(&rules);
        let _in_place = rules.apply_here().unwrap();
        assert_eq!(rules.nameservers(), [IpAddr::V4(rules.subnets.gateway4())]);
        let (one, other) = (Container::connect(&rules), Container::connect(&rules));
        one.reaches_what_it_may();
        one.is_denied_the_rest(&rules, &other);
        // Addresses of its own choosing do not help.
        run("ip", &format!("addr add fd99::1/64 dev {} nodad", rules.link()));
        let configure = || {
            ip("addr add fd99::2/64 dev eth0 nodad");
            ip("-6 route add default via fd99::1");
            (reach("fd99::1").is_ok(), reach(PUBLIC[1]).is_ok())
        };
        assert_eq!(one.namespace.run(configure).unwrap(), (false, false));
    });
}

#[test]
fn what_is_opened_is_reached_and_the_host_is_not() {
    on_a_host(|world| {
        let mut rules = rules(&world);
        rules.allow = ["10.0.0.0/8", "fd00::/8", "192.52.193.0/24", "192.31.196.0/24"]
            .map(|range| range.parse().unwrap())
            .to_vec();
        rules.deny = vec!["192.175.48.0/24".parse().unwrap()];
        make_bridge(&rules);
        rules.apply_here().unwrap();
        let (one, other) = (Container::connect(&rules), Container::connect(&rules));
        crate::world::greet_in(&other.namespace);
        assert!(one.reach("10.20.0.1").is_ok());
        assert!(one.reach("fd77::1").is_ok());
        let neighbour: Vec<String> = other.addresses.iter().map(IpAddr::to_string).collect();
        let sandbox = world.sandbox();
        crate::world::greet_in(&sandbox.namespace);
        let sandboxes: Vec<String> =
            sandbox.attachment.addresses().map(|address| address.to_string()).collect();
        let gateway = rules.subnets.gateway4().to_string();
        let all = neighbour.iter().chain(&sandboxes).chain([&gateway]).map(String::as_str);
        // What is denied beside the usual.
        for address in all.chain(HOST).chain([PUBLIC[0], "172.16.0.1"]) {
            assert!(one.reach(address).is_err(), "{address} was reached");
        }
        for address in &neighbour {
            assert!(sandbox.reach(address).is_err(), "{address} was reached");
        }
    });
}

#[test]
fn a_source_that_is_not_the_networks_does_not_leave() {
    on_a_host(|world| {
        let (in_place, one, _other) = on_a_bridge(&world);
        let subnets = in_place.rules().subnets;
        let receivers = ["192.175.48.10", "2620:4f:8000::10"]
            .map(|to| world.internet.run(|| UdpSocket::bind((to, 5353)).unwrap()).unwrap());
        let send = |from: &str, to: &str| {
            one.namespace
                .run(|| {
                    let socket = UdpSocket::bind((from, 0)).unwrap();
                    let _ = socket.send_to(b"x", (to, 5353));
                })
                .unwrap();
        };
        let spoofed = [
            vec![
                subnets.gateway4().to_string(),
                "192.31.196.2".to_owned(),
                "192.175.48.77".to_owned(),
                "10.20.0.7".to_owned(),
            ],
            vec![
                subnets.gateway6().unwrap().to_string(),
                "2620:4f:8000:f::2".to_owned(),
                "fd77::7".to_owned(),
            ],
        ];
        for ((receiver, own), spoofed) in receivers.iter().zip(&one.addresses).zip(spoofed) {
            receiver.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            let to = receiver.local_addr().unwrap().ip().to_string();
            send(&own.to_string(), &to);
            assert_eq!(receiver.recv(&mut [0; 8]).unwrap(), 1);
            let prefix = if own.is_ipv4() { "32" } else { "128 nodad" };
            for from in spoofed {
                let (address, words) = prefix.split_once(' ').unwrap_or((prefix, ""));
                one.namespace.run(|| ip(&format!("addr add {from}/{address} dev eth0 {words}"))).unwrap();
                send(&from, &to);
                assert!(receiver.recv(&mut [0; 8]).is_err(), "a packet from {from} has left");
            }
        }
    });
}

#[test]
fn nobody_comes_in_from_outside() {
    on_a_host(|world| {
        let (in_place, _one, other) = on_a_bridge(&world);
        let subnets = in_place.rules().subnets;
        world
            .internet
            .run(|| {
                ip(&format!("route add {} via 192.31.196.2", subnets.range4()));
                ip(&format!("-6 route add {} via 2620:4f:8000:f::2", subnets.range6().unwrap()));
                for address in &other.addresses {
                    assert!(reach(&address.to_string()).is_err(), "{address} was reached from outside");
                }
            })
            .unwrap();
        // Its own conversations go on.
        other.reaches_what_it_may();
    });
}

/// Rules first, then the bridge, then a container that sends from its first moment.
#[test]
fn there_is_no_moment_without_rules() {
    on_a_host(|world| {
        let rules = rules(&world);
        let mut in_place = rules.apply_here().unwrap();
        assert_eq!(in_place.verify_here().unwrap(), [Flaw::NoBridge]);
        make_bridge(&rules);
        in_place.repair().unwrap();
        assert_eq!(in_place.verify_here().unwrap(), []);
        let denied = ["10.20.0.1", "169.254.169.254", "fd77::1"];
        let receivers: Vec<UdpSocket> = world
            .internet
            .run(|| denied.map(|address| UdpSocket::bind((address, 5353)).unwrap()).into_iter().collect())
            .unwrap();
        for _ in 0..4 {
            let namespace = Namespace::make().unwrap();
            let inside =
                Namespace::from_fd(std::os::fd::AsFd::as_fd(&namespace).try_clone_to_owned().unwrap());
            let (over, sent) = (AtomicBool::new(false), AtomicBool::new(false));
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    let send = || {
                        let sockets = ["0.0.0.0:0", "[::]:0"].map(|any| UdpSocket::bind(any).unwrap());
                        while !over.load(Ordering::SeqCst) {
                            for to in denied {
                                let socket = &sockets[usize::from(to.contains(':'))];
                                sent.fetch_or(socket.send_to(b"x", (to, 5353)).is_ok(), Ordering::SeqCst);
                            }
                        }
                    };
                    inside.run(send).unwrap();
                });
                let container = Container::connect_namespace(namespace, &rules);
                // Rules that are replaced meanwhile leave no gap either.
                for _ in 0..5 {
                    rules.apply_here().unwrap();
                }
                ip(&format!("link del {}", container.port));
                over.store(true, Ordering::SeqCst);
            });
            assert!(sent.load(Ordering::SeqCst), "nothing was sent");
        }
        for (socket, address) in receivers.iter().zip(denied) {
            socket.set_nonblocking(true).unwrap();
            assert!(socket.recv(&mut [0; 8]).is_err(), "a packet came through to {address}");
        }
    });
}
