//! Other firewalls on the same host, as Docker and people set them up.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use emergent_host_net::{Options, Repair};

use crate::world::{PRIVATE, World, on_a_host, on_a_host_with, run};

/// Changes a rule in both families.
fn on_both(words: &str) {
    for program in ["iptables", "ip6tables"] {
        run(program, words);
    }
}

fn docker_starts() {
    on_both("-P FORWARD DROP");
    on_both("-N DOCKER-USER");
    on_both("-A DOCKER-USER -j RETURN");
    on_both("-I FORWARD -j DOCKER-USER");
}

/// Nobody puts anything back but who is asked to.
fn without_a_watch(options: &mut Options) {
    options.watch = false;
}

const ACCEPTS_RENEWED: Repair = Repair { rules: false, accepts: true };

#[test]
fn where_docker_drops_what_it_does_not_know() {
    on_a_host(|world| {
        docker_starts();
        let sandbox = world.sandbox();
        sandbox.reaches_what_it_may();
        // Idempotent.
        let before = run("iptables", "-S");
        world.network.recheck().unwrap();
        assert_eq!(run("iptables", "-S"), before);
        sandbox.reaches_what_it_may();
        world.network.detach(sandbox.id).unwrap();
        world.network.clean_up().unwrap();
        assert_eq!(world.traces(), Vec::<String>::new());
    });
}

/// Without the accepts nothing comes through, so it is they that let it through; and in no
/// state of another firewall is anything reached that must not be.
#[test]
fn nothing_passes_dockers_firewall_but_by_our_accepts() {
    on_a_host_with(without_a_watch, |world| {
        let (one, other) = world.two_sandboxes();
        one.reaches_what_it_may();
        one.is_denied_the_rest(&other);
        docker_starts();
        one.reaches_nothing();
        one.is_denied_the_rest(&other);
        assert_eq!(world.network.recheck().unwrap(), ACCEPTS_RENEWED);
        one.reaches_what_it_may();
        one.is_denied_the_rest(&other);
        // Somebody flushes the chain.
        on_both("-F DOCKER-USER");
        one.reaches_nothing();
        one.is_denied_the_rest(&other);
        assert_eq!(world.network.recheck().unwrap(), ACCEPTS_RENEWED);
        one.reaches_what_it_may();
        assert_eq!(world.network.recheck().unwrap(), Repair::default());
    });
}

#[test]
fn nothing_passes_a_policy_of_drop_but_by_our_accepts() {
    on_a_host_with(without_a_watch, |world| {
        on_both("-P FORWARD DROP");
        let (one, other) = world.two_sandboxes();
        one.reaches_what_it_may();
        one.is_denied_the_rest(&other);
        on_both("-F FORWARD");
        one.reaches_nothing();
        one.is_denied_the_rest(&other);
        assert_eq!(world.network.recheck().unwrap(), ACCEPTS_RENEWED);
        one.reaches_what_it_may();
        // Nor does somebody else's accept of everything undo a denial.
        on_both("-I FORWARD -j ACCEPT");
        on_both("-I INPUT -j ACCEPT");
        one.is_denied_the_rest(&other);
    });
}

/// Sends to denied addresses without a pause while the accepts come and go.
#[test]
fn denials_hold_while_accepts_come_and_go() {
    on_a_host_with(without_a_watch, |world| {
        docker_starts();
        let sandbox = world.sandbox();
        let denied = ["10.20.0.1", "169.254.169.254", "192.168.7.1", "fd77::1", "64:ff9b::a9fe:a9fe"];
        let receivers: Vec<UdpSocket> = world
            .internet
            .run(|| denied.iter().map(|address| UdpSocket::bind((*address, 5353)).unwrap()).collect())
            .unwrap();
        let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                sandbox.namespace.run(|| send_until(&over, &sent, &denied)).unwrap();
            });
            for _ in 0..10 {
                let before = sent.load(Ordering::SeqCst);
                on_both("-F DOCKER-USER");
                assert_eq!(world.network.recheck().unwrap(), ACCEPTS_RENEWED);
                assert!(sent.load(Ordering::SeqCst) > before, "nothing was sent meanwhile");
            }
            over.store(true, Ordering::SeqCst);
        });
        for (socket, address) in receivers.iter().zip(denied) {
            socket.set_nonblocking(true).unwrap();
            assert!(socket.recv(&mut [0; 8]).is_err(), "a packet came through to {address}");
        }
        sandbox.reaches_what_it_may();
    });
}

/// Sends to denied addresses without a pause while the rules are replaced.
#[test]
fn denials_hold_while_rules_are_replaced() {
    on_a_host_with(without_a_watch, |world| {
        let sandbox = world.sandbox();
        let denied = ["10.20.0.1", "169.254.169.254", "fd77::1"];
        let receivers: Vec<UdpSocket> = world
            .internet
            .run(|| denied.iter().map(|address| UdpSocket::bind((*address, 5353)).unwrap()).collect())
            .unwrap();
        let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        let table = emergent_host_net::table_name(world.installation);
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| sandbox.namespace.run(|| send_until(&over, &sent, &denied)).unwrap());
            }
            for _ in 0..20 {
                run("nft", &format!("add chain inet {table} somebodys"));
                assert_eq!(world.network.recheck().unwrap(), Repair { rules: true, accepts: false });
            }
            over.store(true, Ordering::SeqCst);
        });
        assert!(sent.load(Ordering::SeqCst) > 1000, "hardly anything was sent meanwhile");
        for (socket, address) in receivers.iter().zip(denied) {
            socket.set_nonblocking(true).unwrap();
            assert!(socket.recv(&mut [0; 8]).is_err(), "a packet came through to {address}");
        }
        assert_eq!(run("nft", "list tables").matches(&table).count(), 1, "one table and no copy of it");
    });
}

fn send_until(over: &AtomicBool, sent: &AtomicU64, to: &[&str]) {
    let v4 = UdpSocket::bind("0.0.0.0:0").unwrap();
    let v6 = UdpSocket::bind("[::]:0").unwrap();
    while !over.load(Ordering::SeqCst) {
        for address in to {
            let socket = if address.contains(':') { &v6 } else { &v4 };
            // What was refused before is said by the next call.
            if socket.send_to(b"x", (*address, 5353)).is_ok() {
                sent.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

/// With the table goes the translation of addresses, and nobody answers; with one check all of it
/// is back.
#[test]
fn a_ruleset_that_somebody_flushes_is_whole_again() {
    on_a_host_with(without_a_watch, |world: World| {
        let (one, other) = world.two_sandboxes();
        run("nft", "flush ruleset");
        one.reaches_nothing();
        assert_eq!(world.network.recheck().unwrap(), Repair { rules: true, accepts: false });
        one.reaches_what_it_may();
        one.is_denied_the_rest(&other);
    });
}

#[test]
fn rules_that_somebody_removes_come_back() {
    on_a_host(|world| {
        let sandbox = world.sandbox();
        run("nft", "flush ruleset");
        world.network.recheck().unwrap();
        sandbox.reaches_what_it_may();
        // Also when a single rule is gone, and without anybody asking.
        let table = emergent_host_net::table_name(world.installation);
        run("nft", &format!("flush chain inet {table} leaving"));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while sandbox.reach(PRIVATE[0]).is_ok() {
            assert!(std::time::Instant::now() < deadline, "the rule has not come back");
        }
        assert!(world.network.obstacles().is_empty());
        run("nft", "add table inet firewalld");
        run("nft", "add chain inet firewalld filter_FORWARD { type filter hook forward priority 10 ; }");
        assert!(world.network.obstacles()[0].contains("firewall-cmd"));
    });
}

#[test]
fn a_host_that_was_no_router_does_not_become_one() {
    on_a_host(|world| {
        let sandbox = world.sandbox();
        sandbox.reaches_what_it_may();
        // Somebody outside routes through this host to a network behind it.
        let inner = emergent_host_net::Namespace::make().unwrap();
        let mut anchor =
            inner.run(|| std::process::Command::new("sleep").arg("600").spawn().unwrap()).unwrap();
        run("ip", &format!("link add dmz0 type veth peer name eth0 netns {}", anchor.id()));
        run("ip", "addr add 192.0.2.1/30 dev dmz0");
        run("ip", "link set dmz0 up");
        inner
            .run(|| {
                run("ip", "addr add 192.0.2.2/30 dev eth0");
                run("ip", "link set eth0 up");
                run("ip", "route add default via 192.0.2.1");
            })
            .unwrap();
        crate::world::greet_in(&inner);
        assert!(crate::world::reach("192.0.2.2").is_ok());
        let from_outside = || {
            world.internet.run(|| {
                run("ip", "route replace 192.0.2.0/30 via 192.31.196.2");
                crate::world::reach("192.0.2.2")
            })
        };
        assert!(from_outside().unwrap().is_err(), "the host forwards for strangers");
        // Unless somebody else makes it one.
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        world.network.recheck().unwrap();
        assert!(from_outside().unwrap().is_ok(), "somebody else's forwarding is hindered");
        anchor.kill().unwrap();
        anchor.wait().unwrap();
    });
}
