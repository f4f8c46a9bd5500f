//! A real Docker daemon whose network it is, and that is started again.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;

use emergent_host_net::bridge::{BridgeRules, Flaw};
use emergent_host_net::{Cidr, Repair};

use super::containers::{Container, RESOLVER4, forward, rules, wait_for_addresses};
use super::names::{answer, is_answered};
use crate::docker::Daemon;
use crate::world::{greet_in, on_a_host, run};

/// Asks the daemon, as every client does, and returns what it answers.
fn ask(folder: &Path, what: &str, body: &str) -> String {
    let mut stream = UnixStream::connect(folder.join("docker.sock")).unwrap();
    let length = body.len();
    let head =
        format!("{what} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split_whitespace().nth(1).unwrap();
    assert!(status.starts_with('2'), "{what}: {answer}");
    answer
}

fn make_network(folder: &Path, rules: &BridgeRules) {
    let (link, subnets) = (rules.link(), rules.subnets);
    let range = |range: Cidr, gateway: IpAddr| format!(r#"{{"Subnet":"{range}","Gateway":"{gateway}"}}"#);
    let range4 = range(subnets.range4(), subnets.gateway4().into());
    let range6 = range(subnets.range6().unwrap(), subnets.gateway6().unwrap().into());
    let options = format!(
        r#""com.docker.network.bridge.name":"{link}","com.docker.network.bridge.enable_icc":"false""#
    );
    let body = format!(
        r#"{{"Name":"{link}","Driver":"bridge","EnableIPv6":true,"Options":{{{options}}},"IPAM":{{"Config":[{range4},{range6}]}}}}"#
    );
    ask(folder, "POST /networks/create", &body);
}

#[test]
fn rules_and_accepts_hold_when_the_engine_is_started_again() {
    on_a_host(|world| {
        let folder = tempfile::Builder::new().prefix("emergent-dockerd-").tempdir().unwrap();
        world.internet.run(|| answer(RESOLVER4, "four")).unwrap();
        let daemon = Daemon::start(folder.path());
        forward();
        let rules = rules(&world);
        let early = rules.apply_here().unwrap();
        assert_eq!(early.verify_here().unwrap(), [Flaw::NoBridge]);
        make_network(folder.path(), &rules);
        let mut in_place = rules.apply_here().unwrap();
        assert_eq!(in_place.verify_here().unwrap(), []);
        assert!(run("iptables", "-S").contains("-P FORWARD DROP"));

        let (one, other) = (Container::connect(&rules), Container::connect(&rules));
        greet_in(&other.namespace);
        wait_for_addresses(&rules);
        let all_holds = || {
            one.reaches_what_it_may();
            one.is_denied_the_rest(&rules, &other);
            is_answered(&one, rules.nameservers()[0], "four", "192.31.196.2");
        };
        all_holds();
        // Once in good order, and once not. Nobody has to look after anything.
        daemon.stop();
        all_holds();
        let daemon = Daemon::start(folder.path());
        all_holds();
        drop(daemon);
        let daemon = Daemon::start(folder.path());
        all_holds();
        assert_eq!(in_place.verify_here().unwrap(), []);
        assert_eq!(in_place.repair().unwrap(), Repair::default());

        let network = ask(folder.path(), &format!("GET /networks/{}", rules.link()), "");
        assert!(network.contains(&rules.subnets.range4().to_string()), "{network}");
        daemon.stop();
    });
}
