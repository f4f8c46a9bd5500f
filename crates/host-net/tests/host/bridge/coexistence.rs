//! Others on the same host: their rules and ours.

use emergent_host_net::bridge::{BridgeRules, Flaw, Subnets, Survey, remove_here};
use emergent_host_net::{Repair, bridge_rule_comment, bridge_table_name, table_name};
use emergent_types::InstallationId;

use super::containers::{Container, make_bridge, on_a_bridge, rules, wait_for_addresses};
use crate::world::{World, on_a_host, on_a_host_with, run};

fn listed(family: &str, table: &str) -> String {
    run("nft", &format!("-s list table {family} {table}"))
}

/// What is on the host of an installation's bridge.
fn traces(installation: InstallationId) -> Vec<String> {
    let all = [run("nft", "list tables"), run("iptables", "-S"), run("ip6tables", "-S")].join("\n");
    let (table, comment) = (bridge_table_name(installation), bridge_rule_comment(installation));
    all.lines().filter(|line| line.contains(&table) || line.contains(&comment)).map(str::to_owned).collect()
}

#[test]
fn two_installations_do_not_clash() {
    on_a_host(|world| {
        let (in_place, one, _other) = on_a_bridge(&world);
        let neighbour = InstallationId::generate();
        let survey = Survey::of_this_host().unwrap();
        let own = in_place.rules();
        assert!(survey.taken.contains(&own.subnets.range4()));
        let rules = BridgeRules {
            installation: neighbour,
            subnets: Subnets::choose(neighbour, &survey.taken).unwrap(),
            ..own.clone()
        };
        make_bridge(&rules);
        let before = ["inet", "bridge"].map(|family| listed(family, &bridge_table_name(world.installation)));
        let there = rules.apply_here().unwrap();
        let stranger = Container::connect(&rules);
        crate::world::greet_in(&stranger.namespace);
        assert_eq!(there.verify_here().unwrap(), []);
        assert_eq!(in_place.verify_here().unwrap(), []);
        one.reaches_what_it_may();
        stranger.reaches_what_it_may();
        one.is_denied_the_rest(own, &stranger);
        stranger.is_denied_the_rest(&rules, &one);
        // It goes, and only it.
        remove_here(neighbour).unwrap();
        remove_here(neighbour).unwrap();
        assert_eq!(traces(neighbour), Vec::<String>::new());
        let after = ["inet", "bridge"].map(|family| listed(family, &bridge_table_name(world.installation)));
        assert_eq!(before, after);
        assert_eq!(in_place.verify_here().unwrap(), []);
        one.reaches_what_it_may();
    });
}

/// Both kinds of sandboxes of one installation: neither looks after, repairs nor removes the
/// other's rules.
#[test]
fn sandboxes_with_links_of_their_own_stay_apart() {
    on_a_host_with(
        |options| options.watch = false,
        |world: World| {
            for program in ["iptables", "ip6tables"] {
                run(program, "-P FORWARD DROP");
            }
            let sandbox = world.sandbox();
            let (mut in_place, one, other) = on_a_bridge(&world);
            let links = listed("inet", &table_name(world.installation));
            // The host forwards now by somebody else's decision, which changes the links' rules.
            world.network.recheck().unwrap();
            assert_eq!(world.network.recheck().unwrap(), Repair::default());
            assert_eq!(in_place.verify_here().unwrap(), []);
            assert_eq!(in_place.repair().unwrap(), Repair::default());
            crate::world::greet_in(&sandbox.namespace);
            for address in sandbox.attachment.addresses() {
                assert!(one.reach(&address.to_string()).is_err(), "{address} was reached");
            }
            for address in &other.addresses {
                assert!(sandbox.reach(&address.to_string()).is_err(), "{address} was reached");
            }
            sandbox.reaches_what_it_may();
            one.reaches_what_it_may();
            world.network.detach(sandbox.id).unwrap();
            world.network.clean_up().unwrap();
            assert!(
                !run("nft", "list tables")
                    .lines()
                    .any(|line| line.ends_with(&table_name(world.installation)))
            );
            assert_eq!(in_place.verify_here().unwrap(), []);
            one.reaches_what_it_may();
            one.is_denied_the_rest(in_place.rules(), &other);
            assert!(!links.is_empty());
        },
    );
}

/// A link that the other kind has made forward for its sandboxes alone lets answers through to
/// the bridge as well.
#[test]
fn a_guarded_uplink_lets_answers_through() {
    on_a_host_with(
        |options| options.watch = false,
        |world: World| {
            let sandbox = world.sandbox();
            let (in_place, one, _other) = on_a_bridge(&world);
            one.reaches_what_it_may();
            sandbox.reaches_what_it_may();
            assert_eq!(in_place.verify_here().unwrap(), []);
        },
    );
}

#[test]
fn accepts_are_put_where_others_drop() {
    on_a_host(|world| {
        let rules = rules(&world);
        make_bridge(&rules);
        for program in ["iptables", "ip6tables"] {
            for words in
                ["-P FORWARD DROP", "-N DOCKER-USER", "-A DOCKER-USER -j RETURN", "-I FORWARD -j DOCKER-USER"]
            {
                run(program, words);
            }
        }
        let mut in_place = rules.apply_here().unwrap();
        let (one, other) = (Container::connect(&rules), Container::connect(&rules));
        one.reaches_what_it_may();
        assert!(in_place.is_untouched());
        for program in ["iptables", "ip6tables"] {
            run(program, "-F DOCKER-USER");
        }
        assert!(!in_place.is_untouched());
        assert_eq!(in_place.verify_here().unwrap(), [Flaw::Accepts]);
        assert!(one.reach("192.175.48.10").is_err());
        assert_eq!(in_place.repair().unwrap(), Repair { rules: false, accepts: true });
        assert!(in_place.is_untouched());
        one.reaches_what_it_may();
        // Nobody else's accept undoes a denial.
        for program in ["iptables", "ip6tables"] {
            run(program, "-I FORWARD -j ACCEPT");
            run(program, "-I INPUT -j ACCEPT");
        }
        one.is_denied_the_rest(&rules, &other);
        remove_here(rules.installation).unwrap();
        assert_eq!(traces(rules.installation), Vec::<String>::new());
    });
}

#[test]
fn rules_that_somebody_changes_are_noticed_and_come_back() {
    on_a_host(|world| {
        let (mut in_place, one, other) = on_a_bridge(&world);
        let table = bridge_table_name(world.installation);
        // A conversation fills a set, which is nobody's change.
        one.reaches_what_it_may();
        assert!(in_place.is_untouched());
        for change in [
            "flush ruleset".to_owned(),
            format!("flush chain inet {table} leaving"),
            format!("delete element inet {table} deny4 {{ 10.0.0.0/8 }}"),
            format!("delete table bridge {table}"),
            format!("insert rule inet {table} forward accept"),
        ] {
            run("nft", &change);
            assert!(!in_place.is_untouched(), "{change}");
            assert_eq!(in_place.verify_here().unwrap(), [Flaw::Rules], "{change}");
            assert_eq!(in_place.repair().unwrap(), Repair { rules: true, accepts: false }, "{change}");
            assert!(in_place.is_untouched() && in_place.verify_here().unwrap().is_empty(), "{change}");
        }
        wait_for_addresses(in_place.rules());
        one.reaches_what_it_may();
        one.is_denied_the_rest(in_place.rules(), &other);
        assert!(in_place.rules().enforceable_here().is_ok());
        assert!(in_place.rules().obstacles_here().is_empty());
        run("nft", "add table inet strict");
        run("nft", "add chain inet strict forward { type filter hook forward priority 0 ; policy drop ; }");
        assert!(in_place.rules().obstacles_here()[0].contains(&in_place.rules().link()));
    });
}
