//! What a sandbox reaches.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use emergent_host_net::{Namespace, table_name};
use emergent_types::WorkspaceId;

use crate::world::{HOST, PRIVATE, PUBLIC, greet_in, ip, on_a_host, on_a_host_with, reach, run};

#[test]
fn the_internet_and_nothing_else() {
    on_a_host(|world| {
        for address in PUBLIC.iter().chain(&PRIVATE).chain(&HOST) {
            assert!(reach(address).is_ok(), "the host itself must reach {address} for this to mean anything");
        }
        let sandbox = world.sandbox();
        // Seen under the host's address, never under its own.
        assert_eq!(sandbox.reach(PUBLIC[0]).unwrap(), "192.31.196.2");
        assert_eq!(sandbox.reach(PUBLIC[1]).unwrap(), "2620:4f:8000:f::2");
        for address in PRIVATE.iter().chain(&HOST) {
            let start = Instant::now();
            assert!(sandbox.reach(address).is_err(), "{address} was reached");
            assert!(start.elapsed() < Duration::from_millis(1400), "{address} is dropped and not refused");
        }
        // The host's end of its own link.
        let own = sandbox.attachment.v4.to_bits() & !0xfff;
        let gateway = std::net::Ipv4Addr::from_bits(own + 1).to_string();
        assert!(reach(&gateway).is_ok());
        assert!(sandbox.reach(&gateway).is_err(), "{gateway} was reached");
    });
}

#[test]
fn sandboxes_do_not_reach_each_other() {
    on_a_host(|world| {
        let (one, other) = (world.sandbox(), world.sandbox());
        greet_in(&other.namespace);
        for address in other.attachment.addresses() {
            let address = address.to_string();
            assert!(other.reach(&address).is_ok(), "it listens on {address}");
            assert!(one.reach(&address).is_err(), "{address} of another sandbox was reached");
        }
        // Nor does anybody from outside, who needs nothing but a route.
        world
            .internet
            .run(|| {
                ip("route add 10.128.0.0/9 via 192.31.196.2");
                let address = other.attachment.v4.to_string();
                assert!(reach(&address).is_err(), "{address} was reached from outside");
            })
            .unwrap();
    });
}

#[test]
fn a_source_that_is_not_its_own_does_not_leave() {
    on_a_host(|world| {
        let (sandbox, other) = (world.sandbox(), world.sandbox());
        let seen = world.internet.run(|| UdpSocket::bind(("192.175.48.10", 5353)).unwrap()).unwrap();
        seen.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut buffer = [0; 64];
        let send = |from: String, text: &str| {
            sandbox
                .namespace
                .run(|| {
                    let socket = UdpSocket::bind((from.as_str(), 0)).unwrap();
                    let _ = socket.send_to(text.as_bytes(), "192.175.48.10:5353");
                })
                .unwrap();
        };
        send(sandbox.attachment.v4.to_string(), "own");
        assert_eq!(seen.recv(&mut buffer).unwrap(), 3);
        for spoofed in
            [other.attachment.v4.to_string(), "192.31.196.2".to_owned(), "192.175.48.77".to_owned()]
        {
            sandbox.namespace.run(|| ip(&format!("addr add {spoofed}/32 dev eth0"))).unwrap();
            send(spoofed.clone(), "spoofed");
            assert!(seen.recv(&mut buffer).is_err(), "a packet from {spoofed} has left");
        }
    });
}

#[test]
fn what_is_opened_is_reached_and_the_host_is_not() {
    let open = |options: &mut emergent_host_net::Options| {
        options.egress_allow = ["10.20.0.0/16", "fd77::/64", "192.52.193.0/24", "192.31.196.0/24"]
            .map(|range| range.parse().unwrap())
            .to_vec();
    };
    on_a_host_with(open, |world| {
        let sandbox = world.sandbox();
        assert!(sandbox.reach("10.20.0.1").is_ok());
        assert!(sandbox.reach("fd77::1").is_ok());
        for address in ["10.255.255.1", "fc77::1"].iter().chain(&HOST) {
            assert!(sandbox.reach(address).is_err(), "{address} was reached");
        }
    });
}

#[test]
fn there_is_no_moment_without_rules() {
    on_a_host(|world| {
        let seen = world.internet.run(|| UdpSocket::bind(("10.20.0.1", 5353)).unwrap()).unwrap();
        seen.set_nonblocking(true).unwrap();
        let over = AtomicBool::new(false);
        {
            for _ in 0..4 {
                let (id, namespace) = (WorkspaceId::generate(), Namespace::make().unwrap());
                let sent = AtomicBool::new(false);
                over.store(false, Ordering::SeqCst);
                std::thread::scope(|inner| {
                    inner.spawn(|| {
                        namespace
                            .run(|| {
                                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                                while !over.load(Ordering::SeqCst) {
                                    if socket.send_to(b"x", "10.20.0.1:5353").is_ok() {
                                        sent.store(true, Ordering::SeqCst);
                                    }
                                }
                            })
                            .unwrap();
                    });
                    world.network.attach(id, &namespace).unwrap();
                    std::thread::sleep(Duration::from_millis(50));
                    world.network.detach(id).unwrap();
                    over.store(true, Ordering::SeqCst);
                });
                assert!(sent.load(Ordering::SeqCst), "nothing was sent");
                assert!(seen.recv(&mut [0; 8]).is_err(), "a packet came through to a denied address");
            }
        }
    });
}

/// What programs of the host send of their own accord, whatever leads there.
#[test]
fn the_host_begins_nothing_with_a_sandbox() {
    on_a_host_with(
        |options| options.watch = false,
        |world| {
            let sandbox = world.sandbox();
            greet_in(&sandbox.namespace);
            let [v4, v6] = [sandbox.attachment.v4.to_string(), sandbox.attachment.v6.unwrap().to_string()];
            // Somebody's translation, as engines make them for ports of the host.
            translate("192.0.2.77", &v4);
            for address in [v4.as_str(), &v6] {
                assert!(
                    !datagram_arrives(&sandbox.namespace, address),
                    "a datagram to {address} has arrived"
                );
                let refused = reach(address).unwrap_err();
                assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused, "{address}");
            }
            assert!(!datagram_arrives(&sandbox.namespace, "192.0.2.77"), "a translated datagram has arrived");
            // Answers do arrive, those that say no among them.
            assert!(PUBLIC.iter().all(|address| sandbox.reach(address).is_ok()));
            assert_eq!(sandbox.reach(HOST[0]).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);

            let table = table_name(world.installation);
            for chain in ["output", "delivered"] {
                run("nft", &format!("flush chain inet {table} {chain}"));
            }
            for address in [v4.as_str(), &v6, "192.0.2.77"] {
                assert!(
                    datagram_arrives(&sandbox.namespace, address),
                    "nothing else holds it back: {address}"
                );
            }
            assert!(world.network.recheck().unwrap().rules);
            for address in [v4.as_str(), &v6, "192.0.2.77"] {
                assert!(
                    !datagram_arrives(&sandbox.namespace, address),
                    "a datagram to {address} has arrived"
                );
            }
        },
    );
}

/// Sends what goes from this host to one address to another.
pub(crate) fn translate(from: &str, to: &str) {
    run("nft", "add table ip translations");
    run("nft", "add chain ip translations output { type nat hook output priority -100 ; policy accept ; }");
    run("nft", &format!("add rule ip translations output ip daddr {from} dnat to {to}"));
}

/// Whether a datagram of the host's gets there.
pub(crate) fn datagram_arrives(there: &Namespace, address: &str) -> bool {
    let receiver = there.run(|| UdpSocket::bind("[::]:5353").unwrap()).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
    let sender = UdpSocket::bind(if address.contains(':') { "[::]:0" } else { "0.0.0.0:0" }).unwrap();
    // It may be told at once that it must not.
    let _ = sender.send_to(b"x", (address, 5353));
    receiver.recv(&mut [0; 8]).is_ok()
}
