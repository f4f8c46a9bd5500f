//! The script for a helper, run as a container with the host's network would run it.

use std::process::Command;

use emergent_host_net::bridge::{
    Flaw, HelperAction, HelperFailure, HelperReport, HelperScript, Separation, Survey,
};
use emergent_host_net::{bridge_table_name, table_name};

use super::containers::{
    Container, RESOLVER4, make_bridge, rules, show_packets_of_all_bridges, wait_for_addresses,
};
use super::names::{answer, is_answered};
use crate::world::{on_a_host, run};

/// The shells that small images have.
pub(super) const SHELLS: [&[&str]; 2] = [&["dash", "-c"], &["busybox", "sh", "-c"]];

/// In a namespace of mounts in which the kernel's files show this thread's network, as in a
/// container, and nothing can be written to them.
fn output(shell: &[&str], script: &str) -> String {
    const AS_IN_A_CONTAINER: &str =
        "mount -t sysfs -o ro sysfs /sys && mount -o remount,bind,ro /proc && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", AS_IN_A_CONTAINER, "sh"])
        .args(shell)
        .arg(script)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

pub(super) fn report(shell: &[&str], script: &HelperScript) -> Result<HelperReport, HelperFailure> {
    let output = output(shell, script.as_str());
    let report = HelperReport::parse(&output);
    assert_eq!(output.lines().count(), 1, "{output}");
    report
}

#[test]
fn a_helper_does_the_same() {
    for shell in SHELLS {
        on_a_host(|world| {
            // The small `ip` of one of them cannot set it for one bridge.
            show_packets_of_all_bridges(if shell[0] == "busybox" { "1" } else { "0" });
            world.internet.run(|| answer(RESOLVER4, "four")).unwrap();
            for program in ["iptables", "ip6tables"] {
                run(program, "-P FORWARD DROP");
                run(program, "-N DOCKER-USER");
                run(program, "-I FORWARD -j DOCKER-USER");
            }
            let rules = rules(&world);
            let [install, verify] =
                [HelperAction::Install, HelperAction::Verify].map(|action| rules.as_helper_script(action));
            let nothing = report(shell, &verify).unwrap();
            assert_eq!(nothing.flaws, [Flaw::NoBridge, Flaw::Rules, Flaw::Accepts]);
            make_bridge(&rules);
            let first = report(shell, &install).unwrap();
            assert!(first.renewed && first.flaws.is_empty(), "{first:?}");

            // The same as what is done here.
            let here = rules.apply_here().unwrap();
            assert_eq!(here.verify_here().unwrap(), []);
            assert_eq!(Some(here.separation()), first.separation);
            let again = report(shell, &verify).unwrap();
            assert_eq!(again.digest, first.digest);
            assert!(!again.renewed && again.flaws.is_empty(), "{again:?}");

            let (one, other) = (Container::connect(&rules), Container::connect(&rules));
            one.reaches_what_it_may();
            one.is_denied_the_rest(&rules, &other);
            is_answered(&one, rules.nameservers()[0], "four", "192.31.196.2");
            // What containers send changes nothing.
            assert_eq!(report(shell, &verify).unwrap(), again);
            let installed = report(shell, &install).unwrap();
            assert_eq!(installed, again, "nothing is there twice");
            assert_eq!(here.verify_here().unwrap(), []);

            // Somebody else's changes are seen and put right.
            let table = bridge_table_name(world.installation);
            for change in [
                format!("flush chain inet {table} leaving"),
                format!("delete element inet {table} deny4 {{ 10.0.0.0/8 }}"),
                format!("delete table bridge {table}"),
                format!("delete table inet {table}"),
            ] {
                run("nft", &change);
                let found = report(shell, &verify).unwrap();
                assert_ne!(found.digest, first.digest, "{change}");
                let mended = report(shell, &install).unwrap();
                assert_eq!(mended, again, "{change}");
            }
            run("iptables", "-F DOCKER-USER");
            assert_eq!(report(shell, &verify).unwrap().flaws, [Flaw::Accepts]);
            assert!(report(shell, &install).unwrap().renewed);
            wait_for_addresses(&rules);
            one.reaches_what_it_may();

            let removed = report(shell, &HelperScript::remove(world.installation)).unwrap();
            assert_eq!(removed.separation, None);
            let remove = report(shell, &HelperScript::remove(world.installation));
            assert!(remove.is_ok(), "{remove:?}");
            assert!(!run("nft", "list tables").contains(&table_name(world.installation)));
            assert!(!run("iptables-save", "").contains("emergent"));
        });
    }
}

#[test]
fn a_helper_says_why_it_cannot() {
    on_a_host(|world| {
        let rules = rules(&world);
        let script = rules.as_helper_script(HelperAction::Install);
        let limited = format!(
            "exec setpriv --bounding-set -net_admin --inh-caps -net_admin sh -c '{}'",
            script.as_str().replace('\'', "'\\''")
        );
        let refused = HelperReport::parse(&output(SHELLS[0], &limited));
        assert!(matches!(&refused, Err(HelperFailure::Refused(why)) if why.contains("nft: ")), "{refused:?}");
        let without = script.as_str().replace("command -v nft", "command -v nftnft");
        let refused = HelperReport::parse(&output(SHELLS[0], &without));
        assert!(matches!(&refused, Err(HelperFailure::Refused(why)) if why.contains("image")), "{refused:?}");
    });
}

/// Kernel and image are too poor together.
#[test]
fn a_helper_says_what_is_not_kept_apart() {
    on_a_host(|world| {
        show_packets_of_all_bridges("0");
        let rules = rules(&world);
        make_bridge(&rules);
        let report = report(SHELLS[1], &rules.as_helper_script(HelperAction::Install)).unwrap();
        let expect: &[Flaw] =
            if report.separation == Some(Separation::ByBridge) { &[] } else { &[Flaw::PacketsNotShown] };
        assert_eq!(report.flaws, expect);
    });
}

#[test]
fn a_helpers_survey_is_the_hosts() {
    on_a_host(|world| {
        let rules = rules(&world);
        make_bridge(&rules);
        // Routes of IPv6 come a moment after their addresses.
        wait_for_addresses(&rules);
        let here = Survey::of_this_host().unwrap();
        assert!(here.taken.contains(&rules.subnets.range4()));
        assert!(here.taken.contains(&rules.subnets.range6().unwrap()));
        for shell in SHELLS {
            assert_eq!(Survey::parse(&output(shell, &Survey::script())).unwrap(), here);
        }
    });
}
