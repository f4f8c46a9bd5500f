//! What sandboxes reach, on hosts that are network namespaces of the tests' own.

use std::net::UdpSocket;

use emergent_host_net::{Namespace, table_name};
use emergent_provider::SandboxSpec;
use emergent_provider::conformance::TestSandbox;
use emergent_provider_gvisor::network_id;
use emergent_types::NetworkMode;

use crate::faults::Server;
use crate::world::{HOST, PORT, PUBLIC, on_a_host, run};

/// Some of what no sandbox may reach; the rules for all of it have tests of their own.
const DENIED: [&str; 5] = ["10.20.0.1", "169.254.169.254", "172.16.0.1", "192.168.7.1", "100.64.0.9"];

async fn make(server: &Server, network: NetworkMode) -> TestSandbox {
    let made = server.subject.sandbox_with(SandboxSpec { network, ..server.subject.spec() }).await;
    assert_eq!(made.sandbox.network, network);
    made
}

async fn reaches(sandbox: &TestSandbox, address: &str, port: u16) -> bool {
    !reached_of(sandbox, &[address], port).await.is_empty()
}

/// Those that it reaches. All are tried at once: each costs a shell, and may cost seconds.
async fn reached_of(sandbox: &TestSandbox, addresses: &[&str], port: u16) -> Vec<String> {
    let tried = format!("timeout 4 bash -c \"exec 3<>/dev/tcp/$a/{port}\" 2>/dev/null && echo $a");
    let script = format!("for a in {}; do ({tried}) & done; wait", addresses.join(" "));
    sandbox.run(&script).await.stdout.to_text().lines().map(str::to_owned).collect()
}

async fn keeps_to_its_network(sandbox: &TestSandbox) {
    let tried: Vec<&str> = PUBLIC[..1].iter().chain(&DENIED).chain(&HOST[..2]).copied().collect();
    assert_eq!(reached_of(sandbox, &tried, PORT).await, PUBLIC[..1]);
}

/// The first resolver of the machine, which the tests cannot choose: it is where questions go.
fn resolver_of_this_machine() -> String {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap();
    text.lines().find_map(|line| line.strip_prefix("nameserver ")).unwrap().trim().to_owned()
}

/// Answers every question for an address with one, in the namespace that stands for the internet.
fn answer_names(internet: &Namespace, resolver: &str, address: [u8; 4]) {
    let socket = internet.run(|| UdpSocket::bind((resolver, 53)).unwrap()).unwrap();
    std::thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question) {
            let asked = &question[..length];
            let mut end = 12;
            while asked[end] != 0 {
                end += usize::from(asked[end]) + 1;
            }
            end += 5;
            let is_v4 = asked[end - 4..end] == [0, 1, 0, 1];
            let mut reply = asked[..end].to_vec();
            reply[2..4].copy_from_slice(&[0x81, 0x80]);
            reply[6..12].copy_from_slice(&[0, u8::from(is_v4), 0, 0, 0, 0]);
            if is_v4 {
                reply.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
                reply.extend(address);
            }
            let _ = socket.send_to(&reply, from);
        }
    });
}

/// A host with the internet around it, and a runtime all of whose threads are there.
fn on_a_host_of_its_own<F: Future<Output = ()>>(test: impl FnOnce(Server, Namespace) -> F + Send) {
    // Packages cannot be had from there.
    crate::unpacked::once(emergent_test_support::TEST_IMAGE);
    on_a_host(|world| {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async { test(Server::new(), world.internet).await });
    });
}

#[test]
fn the_policy_is_the_same_on_every_path() {
    on_a_host_of_its_own(|server, internet| async move {
        let resolver = resolver_of_this_machine();
        internet.run(|| run("ip", &format!("addr add {resolver}/32 dev lo"))).unwrap();
        answer_names(&internet, &resolver, [192, 175, 48, 10]);
        let health = server.provider().health().await;
        assert!(health.is_healthy(), "{health:?}");
        assert_eq!(server.provider().why_no_network(NetworkMode::Internet).await, None);
        let offered = server.provider().capabilities().await.networks;
        assert_eq!(offered, [NetworkMode::Isolated, NetworkMode::Internet]);

        let next = server.again();
        let specs = {
            let one = make(&server, NetworkMode::Internet).await;
            keeps_to_its_network(&one).await;
            let address = one.sh("getent ahostsv4 example.org | head -n 1 | cut -d ' ' -f 1").await;
            assert_eq!(address, "192.175.48.10");
            // Its resolver answers for names and for nothing else.
            assert!(!reaches(&one, &resolver, PORT).await);

            // Nor do they reach each other.
            let other = make(&server, NetworkMode::Internet).await;
            let listens = "python3 -c 'import socket, time; s = socket.create_server((\"\", 8000)); \
                           open(\"listens\", \"w\"); time.sleep(99)' >/dev/null 2>&1 & \
                           until test -e listens; do sleep 0.1; done; ip -4 -o addr show eth0";
            let shown = other.sh(listens).await;
            let address = shown.split_whitespace().nth(3).and_then(|range| range.split('/').next()).unwrap();
            assert!(!reaches(&one, address, 8000).await, "{address} was reached");
            assert!(reaches(&other, "127.0.0.1", 8000).await, "it listens");

            let alone = make(&server, NetworkMode::Isolated).await;
            let tried = [PUBLIC[0], DENIED[0], HOST[0]];
            assert!(reached_of(&alone, &tried, PORT).await.is_empty(), "one of {tried:?} was reached");

            one.sh("echo kept > file; sync").await;
            server.provider().stop(one.spec.id).await.unwrap();
            server.subject.resume(&one).await;
            keeps_to_its_network(&one).await;
            // Whoever asks for it keeps the provider.
            [one.spec, other.spec, alone.spec]
        };

        // Another server takes over what is connected, names included.
        drop(server);
        assert!(next.provider().health().await.is_healthy());
        // Made again under the same id is taken as it is.
        let [one, other, alone] = specs;
        let one = next.subject.sandbox_with(one).await;
        keeps_to_its_network(&one).await;
        assert_eq!(one.sh("cat file").await, "kept");
        let address = one.sh("getent ahostsv4 example.net | head -n 1 | cut -d ' ' -f 1").await;
        assert_eq!(address, "192.175.48.10");
        let third = make(&next, NetworkMode::Internet).await;
        keeps_to_its_network(&third).await;
        for id in [one.spec.id, other.id, alone.id, third.spec.id] {
            next.provider().destroy(id).await.unwrap();
        }
        next.has_left_nothing().await;
    });
}

#[test]
fn what_others_remove_is_put_back_before_the_next_sandbox() {
    on_a_host_of_its_own(|server, _internet| async move {
        assert!(server.provider().health().await.is_healthy());
        let one = make(&server, NetworkMode::Internet).await;
        let table = table_name(network_id(server.installation));
        run("nft", &format!("delete table inet {table}"));
        let two = make(&server, NetworkMode::Internet).await;
        keeps_to_its_network(&two).await;
        keeps_to_its_network(&one).await;
        for id in [one.spec.id, two.spec.id] {
            server.provider().destroy(id).await.unwrap();
        }
    });
}

/// Who cannot see what runs when it first looks, looks again, and takes it over then.
#[test]
fn what_could_not_be_seen_at_first_is_taken_over_later() {
    on_a_host_of_its_own(|server, internet| async move {
        let resolver = resolver_of_this_machine();
        internet.run(|| run("ip", &format!("addr add {resolver}/32 dev lo"))).unwrap();
        answer_names(&internet, &resolver, [192, 175, 48, 10]);
        assert!(server.provider().health().await.is_healthy());
        let spec = make(&server, NetworkMode::Internet).await.spec;
        let (next, obstacle) = server.again_without_sight();
        drop(server);
        next.provider().list().await.expect_err("runsc does not list");
        std::fs::remove_file(obstacle).unwrap();
        let one = next.subject.sandbox_with(spec).await;
        keeps_to_its_network(&one).await;
        // Names are the server's to forward, for those that it knows.
        let address = one.sh("getent ahostsv4 example.net | head -n 1 | cut -d ' ' -f 1").await;
        assert_eq!(address, "192.175.48.10");
        next.provider().destroy(one.spec.id).await.unwrap();
        next.has_left_nothing().await;
    });
}
