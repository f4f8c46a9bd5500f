//! Rules that are gone and cannot be put back.

use std::process::Command;
use std::time::{Duration, Instant};

use emergent_host_net::{HostNetwork, Namespace, link_name, table_name};
use emergent_types::WorkspaceId;

use crate::trouble::Occupier;
use crate::world::{HOST, PRIVATE, PUBLIC, Sandbox, ip, on_a_host, on_a_host_with, run};

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}\n{}", run("nft", "list ruleset"));
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn is_reached(sandbox: &Sandbox) -> bool {
    PUBLIC.iter().all(|address| sandbox.reach(address).is_ok())
}

/// Not the internet, and above all nothing that the rules would have denied. All at once, since
/// nobody says no.
fn is_cut_off(one: &Sandbox, other: &Sandbox) {
    let neighbour: Vec<String> = other.attachment.addresses().map(|address| address.to_string()).collect();
    let addresses = PUBLIC.iter().chain(&PRIVATE).chain(&HOST).copied();
    std::thread::scope(|threads| {
        for address in addresses.chain(neighbour.iter().map(String::as_str)) {
            threads.spawn(move || assert!(one.reach(address).is_err(), "{address} was reached"));
        }
    });
}

#[test]
fn without_rules_nobody_is_connected() {
    on_a_host_with(
        |options| options.watch = false,
        |world| {
            let (one, other) = world.two_sandboxes();
            one.reaches_what_it_may();
            let occupier = Occupier::of(&table_name(world.installation));
            world.network.recheck().unwrap_err();
            is_cut_off(&one, &other);
            // Nor is anybody new.
            world.network.attach(WorkspaceId::generate(), &Namespace::make().unwrap()).unwrap_err();
            is_cut_off(&other, &one);
            world.network.recheck().unwrap_err();
            is_cut_off(&one, &other);

            occupier.end();
            assert!(world.network.recheck().unwrap().rules);
            for (one, other) in [(&one, &other), (&other, &one)] {
                one.reaches_what_it_may();
                one.is_denied_the_rest(other);
            }
            let third = world.sandbox();
            third.reaches_what_it_may();
            for sandbox in [one, other, third] {
                world.network.detach(sandbox.id).unwrap();
            }
            world.network.clean_up().unwrap();
            assert_eq!(world.traces(), Vec::<String>::new());
        },
    );
}

#[test]
fn the_watch_disconnects_and_connects_again() {
    on_a_host(|world| {
        let (one, other) = world.two_sandboxes();
        one.reaches_what_it_may();
        let occupier = Occupier::of(&table_name(world.installation));
        eventually("it is disconnected", || !is_reached(&one));
        is_cut_off(&one, &other);
        occupier.end();
        eventually("it is connected again", || is_reached(&one));
        one.is_denied_the_rest(&other);
    });
}

/// Nothing is known of the rules but that they cannot be put in place.
#[test]
fn the_next_server_disconnects_what_it_finds_without_rules() {
    on_a_host_with(
        |options| options.watch = false,
        |world| {
            let (one, other) = world.two_sandboxes();
            let occupier = Occupier::of(&table_name(world.installation));
            drop(world.network);
            let next = HostNetwork::new(world.options.clone());
            next.adopt(one.id, &one.namespace).unwrap_err();
            is_cut_off(&one, &other);
            is_cut_off(&other, &one);
            drop(next);
            // The one after that finds links that are down, and gives nobody's address away.
            occupier.end();
            let last = HostNetwork::new(world.options.clone());
            last.adopt(one.id, &one.namespace).unwrap();
            let (id, namespace) = (WorkspaceId::generate(), Namespace::make().unwrap());
            let third = last.attach(id, &namespace).unwrap();
            assert!(third.v4 != one.attachment.v4 && third.v4 != other.attachment.v4);
            for (one, other) in [(&one, &other), (&other, &one)] {
                one.reaches_what_it_may();
                one.is_denied_the_rest(other);
            }
        },
    );
}

/// Other networks take every range that sandboxes could have, and one half of the sandboxes' own is
/// forgotten: nobody can tell any more which addresses they have.
#[test]
fn where_nobody_can_tell_who_is_connected_nobody_is() {
    const ALL: [&str; 5] =
        ["10.128.0.0/9", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15", "100.64.0.0/10"];
    on_a_host_with(
        |options| options.watch = false,
        |world| {
            let (one, other) = world.two_sandboxes();
            drop(world.network);
            run("nft", &format!("delete table inet {}", table_name(world.installation)));
            for sandbox in [&one, &other] {
                ip(&format!("-6 addr flush dev {} scope global", link_name(world.installation, sandbox.id)));
            }
            for range in ALL {
                ip(&format!("route add {range} via 192.31.196.1"));
            }
            assert!(one.reach(HOST[0]).is_ok(), "without rules it gets there");
            let next = HostNetwork::new(world.options.clone());
            next.recheck().unwrap_err();
            is_cut_off(&one, &other);
            // The same when it begins with a sandbox.
            for sandbox in [&one, &other] {
                ip(&format!("link set {} up", link_name(world.installation, sandbox.id)));
            }
            drop(next);
            let last = HostNetwork::new(world.options.clone());
            last.adopt(one.id, &one.namespace).unwrap_err();
            is_cut_off(&one, &other);

            for range in ALL {
                ip(&format!("route del {range} via 192.31.196.1"));
            }
            last.recheck().unwrap();
            for (one, other) in [(&one, &other), (&other, &one)] {
                one.reaches_what_it_may();
                one.is_denied_the_rest(other);
            }
        },
    );
}

/// An earlier version did not write into a link's alias which address its sandbox has.
#[test]
fn a_link_of_an_earlier_version_comes_back() {
    on_a_host_with(
        |options| options.watch = false,
        |world| {
            let (one, other) = world.two_sandboxes();
            for sandbox in [&one, &other] {
                let link = link_name(world.installation, sandbox.id);
                let alias = format!("emergent {} {}", world.installation, sandbox.id);
                let set = Command::new("ip").args(["link", "set", &link, "alias", &alias]).status();
                assert!(set.unwrap().success());
            }
            drop(world.network);
            let occupier = Occupier::of(&table_name(world.installation));
            let next = HostNetwork::new(world.options.clone());
            next.adopt(one.id, &one.namespace).unwrap_err();
            is_cut_off(&one, &other);
            drop(next);
            occupier.end();
            let last = HostNetwork::new(world.options.clone());
            last.adopt(one.id, &one.namespace).unwrap();
            for (one, other) in [(&one, &other), (&other, &one)] {
                one.reaches_what_it_may();
                one.is_denied_the_rest(other);
            }
        },
    );
}
