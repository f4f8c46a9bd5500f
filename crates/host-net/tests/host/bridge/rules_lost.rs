//! The bridge when its rules are gone and cannot be put back, or nobody can tell whether they are there.

use emergent_host_net::bridge::{BridgeRules, Flaw, HelperAction, HelperFailure, Separation};
use emergent_host_net::bridge_table_name;

use super::containers::{
    Container, make_bridge, on_a_bridge, rules, show_packets_of_all_bridges, wait_for_addresses,
};
use super::helper::{SHELLS, report};
use crate::trouble::{Occupier, with_failing_nft};
use crate::world::{HOST, PRIVATE, PUBLIC, greet_in, ip, on_a_host, run};

/// Not the internet, and above all nothing that the rules would have denied. All at once, since nobody
/// says no.
fn is_cut_off(one: &Container, other: &Container) {
    let neighbour: Vec<String> = other.addresses.iter().map(ToString::to_string).collect();
    let addresses = PUBLIC.iter().chain(&PRIVATE).chain(&HOST).copied();
    std::thread::scope(|threads| {
        for address in addresses.chain(neighbour.iter().map(String::as_str)) {
            threads.spawn(move || assert!(one.reach(address).is_err(), "{address} was reached"));
        }
    });
}

fn all_is_well(rules: &BridgeRules, one: &Container, other: &Container) {
    wait_for_addresses(rules);
    one.reaches_what_it_may();
    other.reaches_what_it_may();
    one.is_denied_the_rest(rules, other);
}

#[test]
fn a_repair_that_fails_disconnects() {
    on_a_host(|world| {
        let (mut in_place, one, other) = on_a_bridge(&world);
        let rules = in_place.rules().clone();
        let occupier = Occupier::of(&bridge_table_name(world.installation));
        assert!(one.reach(HOST[0]).is_ok(), "without rules it gets there");
        in_place.repair().unwrap_err();
        is_cut_off(&one, &other);
        in_place.repair().unwrap_err();
        is_cut_off(&other, &one);
        occupier.end();
        assert!(in_place.repair().unwrap().rules);
        assert_eq!(in_place.verify_here().unwrap(), []);
        all_is_well(&rules, &one, &other);
    });
}

/// Nothing is known of the rules but that they cannot be put in place.
#[test]
fn the_next_server_disconnects_a_bridge_without_rules() {
    on_a_host(|world| {
        let (in_place, one, other) = on_a_bridge(&world);
        let rules = in_place.rules().clone();
        drop(in_place);
        let occupier = Occupier::of(&bridge_table_name(world.installation));
        rules.apply_here().unwrap_err();
        is_cut_off(&one, &other);
        occupier.end();
        let in_place = rules.apply_here().unwrap();
        assert_eq!(in_place.verify_here().unwrap(), []);
        all_is_well(&rules, &one, &other);
    });
}

#[test]
fn a_look_that_finds_no_rules_disconnects() {
    on_a_host(|world| {
        let (mut in_place, one, other) = on_a_bridge(&world);
        let rules = in_place.rules().clone();
        run("nft", &format!("flush chain inet {} arriving", bridge_table_name(world.installation)));
        run("nft", &format!("flush chain inet {} sent", bridge_table_name(world.installation)));
        assert!(one.reach(HOST[0]).is_ok(), "without rules it gets there");
        assert_eq!(in_place.verify_here().unwrap(), [Flaw::Rules]);
        is_cut_off(&one, &other);
        // Nor does a look bring it back: somebody may change them again.
        assert_eq!(in_place.verify_here().unwrap(), [Flaw::Rules]);
        is_cut_off(&one, &other);
        assert!(in_place.repair().unwrap().rules);
        all_is_well(&rules, &one, &other);
    });
}

#[test]
fn a_look_that_fails_disconnects_unless_nobody_has_touched_a_rule() {
    on_a_host(|world| {
        let (mut in_place, one, other) = on_a_bridge(&world);
        let rules = in_place.rules().clone();
        if in_place.separation() == Separation::ByBridge {
            with_failing_nft(|| {
                in_place.verify_here().unwrap_err();
                in_place.repair().unwrap_err();
            });
            all_is_well(&rules, &one, &other);
        }
        run("nft", "add table inet somebody");
        with_failing_nft(|| {
            in_place.verify_here().unwrap_err();
            is_cut_off(&one, &other);
            ip(&format!("link set {} up", rules.link()));
            in_place.repair().unwrap_err();
            is_cut_off(&one, &other);
            ip(&format!("link set {} up", rules.link()));
            rules.apply_here().unwrap_err();
            is_cut_off(&one, &other);
        });
        in_place.repair().unwrap();
        assert_eq!(in_place.verify_here().unwrap(), []);
        all_is_well(&rules, &one, &other);
    });
}

#[test]
fn a_helper_disconnects_and_connects_again() {
    for shell in SHELLS {
        on_a_host(|world| {
            show_packets_of_all_bridges("1");
            let rules = rules(&world);
            make_bridge(&rules);
            let [install, verify] =
                [HelperAction::Install, HelperAction::Verify].map(|action| rules.as_helper_script(action));
            assert_eq!(report(shell, &install).unwrap().flaws, []);
            let (one, other) = (Container::connect(&rules), Container::connect(&rules));
            greet_in(&other.namespace);
            let table = bridge_table_name(world.installation);
            let occupier = Occupier::of(&table);
            assert!(one.reach(HOST[0]).is_ok(), "without rules it gets there");
            let refused = report(shell, &install);
            assert!(
                matches!(&refused, Err(HelperFailure::Refused(why)) if why.contains("nft: ")),
                "{refused:?}"
            );
            is_cut_off(&one, &other);
            occupier.end();
            assert_eq!(report(shell, &install).unwrap().flaws, []);
            all_is_well(&rules, &one, &other);

            run("nft", &format!("delete table inet {table}"));
            assert!(report(shell, &verify).unwrap().flaws.contains(&Flaw::Rules));
            is_cut_off(&one, &other);
            assert_eq!(report(shell, &install).unwrap().flaws, []);
            all_is_well(&rules, &one, &other);
        });
    }
}
