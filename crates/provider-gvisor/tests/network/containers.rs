//! What containers under gVisor reach, on every way that leads to one.

use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;

use emergent_host_net::{Namespace, bridge_link_name, bridge_table_name};
use emergent_provider::conformance::{Subject, TestSandbox};
use emergent_provider::{ProviderError, SandboxSpec, WorkspaceProvider};
use emergent_provider_gvisor::{EngineAddress, GvisorProvider, Options, Runtime};
use emergent_test_support::{TEST_IMAGE, TestDocker};
use emergent_types::{InstallationId, NetworkMode};

use crate::world::{HOST, PORT, PUBLIC, on_a_host, run};

/// Some of what no sandbox may reach; the rules for all of it have tests of their own.
const DENIED: [&str; 5] = ["10.20.0.1", "169.254.169.254", "172.16.0.1", "192.168.7.1", "100.64.0.9"];

/// A provider, the Docker that it uses, and what both keep.
struct Host {
    subject: Subject,
    installation: InstallationId,
    docker: Arc<TestDocker>,
    data: Arc<tempfile::TempDir>,
}

impl Host {
    fn new(docker: TestDocker) -> Self {
        let data = docker.data_folder();
        Self::of(InstallationId::generate(), Arc::new(docker), Arc::new(data))
    }

    fn of(installation: InstallationId, docker: Arc<TestDocker>, data: Arc<tempfile::TempDir>) -> Self {
        let provider = GvisorProvider::new(Options {
            data_dir: data.path().to_owned(),
            installation,
            agent: emergent_agent_bundle::bytes().into(),
            engine: EngineAddress::new(docker.address()),
            runtime: Runtime::Runsc,
            default_image: TEST_IMAGE.to_owned(),
            egress_allow: Vec::new(),
        });
        let keep = (Arc::clone(&data), Arc::clone(&docker));
        let subject = Subject::new(Arc::new(provider), Some("/workspace"), keep);
        Self { subject, installation, docker, data }
    }

    /// Another server on the same data.
    fn again(self) -> Self {
        Self::of(self.installation, self.docker, self.data)
    }

    fn provider(&self) -> &dyn WorkspaceProvider {
        self.subject.provider.as_ref()
    }

    fn spec(&self, network: NetworkMode) -> SandboxSpec {
        SandboxSpec { network, ..self.subject.spec() }
    }

    async fn make(&self, network: NetworkMode) -> TestSandbox {
        let made = self.subject.sandbox_with(self.spec(network)).await;
        assert_eq!(made.sandbox.network, network);
        made
    }
}

async fn reaches(sandbox: &TestSandbox, address: &str, port: u16) -> bool {
    let script = format!("timeout 4 bash -c 'exec 3<>/dev/tcp/{address}/{port} && echo reached' 2>/dev/null");
    sandbox.run(&script).await.stdout.to_text().contains("reached")
}

async fn keeps_to_its_network(sandbox: &TestSandbox) {
    assert!(reaches(sandbox, PUBLIC[0], PORT).await, "{} is not reached", PUBLIC[0]);
    for address in DENIED.iter().chain(&HOST[..2]) {
        assert!(!reaches(sandbox, address, PORT).await, "{address} was reached");
    }
}

/// The address that a name has, as programs find it.
async fn address_of(sandbox: &TestSandbox, name: &str) -> String {
    sandbox.sh(&format!("getent ahostsv4 {name} | head -n 1 | cut -d ' ' -f 1")).await
}

/// Answers every question for a name with one address, in the namespace that stands for the internet.
fn answer_names(internet: &Namespace, resolver: &str, address: [u8; 4]) {
    let socket = internet.run(|| UdpSocket::bind((resolver, 53)).unwrap()).unwrap();
    std::thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question) {
            let asked = &question[..length];
            // The header's counts say one answer; it points back at the question's name.
            let mut reply = asked.to_vec();
            reply[2..4].copy_from_slice(&[0x81, 0x80]);
            let is_v4 = asked.windows(4).any(|window| window == [0, 1, 0, 1]);
            reply.truncate(question_end(asked));
            reply[6..12].copy_from_slice(&[0, u8::from(is_v4), 0, 0, 0, 0]);
            if is_v4 {
                reply.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
                reply.extend(address);
            }
            let _ = socket.send_to(&reply, from);
        }
    });
}

/// Where the one question of a message ends.
fn question_end(message: &[u8]) -> usize {
    let mut at = 12;
    while message[at] != 0 {
        at += usize::from(message[at]) + 1;
    }
    at + 5
}

/// A host with the internet around it, and a runtime all of whose threads are there.
fn on_a_host_with_docker<F: Future<Output = ()>>(test: impl FnOnce(TestDocker, Namespace) -> F + Send) {
    TestDocker::prepare();
    on_a_host(|world| {
        let docker = TestDocker::own_in_this_network();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(test(docker, world.internet));
    });
}

/// The server is in a network namespace of its own, with nothing around it, and Docker in another.
fn apart_from_docker<F: Future<Output = ()>>(test: impl FnOnce(TestDocker) -> F + Send) {
    TestDocker::prepare();
    let own = Namespace::make().unwrap();
    own.run(|| {
        let docker = TestDocker::own();
        // Made here, so that its threads are here too.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(test(docker));
    })
    .unwrap();
}

/// Runs a program in the network of Docker's host and returns what it printed.
fn on_the_host_of_docker(docker: &TestDocker, options: &[&str], program: &[&str]) -> String {
    let mut command = Command::new("/usr/bin/docker");
    command.args(["--host", docker.address(), "run", "--network", "host"]).args(options);
    let output = command.arg(TEST_IMAGE).args(program).output().unwrap();
    assert!(output.status.success(), "{program:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The first resolver of the machine, which the tests cannot choose: it is where questions go.
fn resolver_of_this_machine() -> String {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap();
    text.lines().find_map(|line| line.strip_prefix("nameserver ")).unwrap().trim().to_owned()
}

#[test]
fn the_policy_is_the_same_on_every_path() {
    on_a_host_with_docker(|docker, internet| async move {
        let resolver = resolver_of_this_machine();
        internet.run(|| run("ip", &format!("addr add {resolver}/32 dev lo"))).unwrap();
        answer_names(&internet, &resolver, [192, 175, 48, 10]);
        let host = Host::new(docker);
        assert!(host.provider().health().await.is_healthy());
        assert_eq!(host.provider().why_no_network(NetworkMode::Internet).await, None);
        let offered = host.provider().capabilities().await.networks;
        assert_eq!(offered, [NetworkMode::Isolated, NetworkMode::Internet]);

        let one = host.make(NetworkMode::Internet).await;
        keeps_to_its_network(&one).await;
        assert_eq!(address_of(&one, "example.org").await, "192.175.48.10");
        // Its resolver answers for names and for nothing else.
        assert!(!reaches(&one, &resolver, PORT).await);

        // Nor do they reach each other.
        let other = host.make(NetworkMode::Internet).await;
        let listens = "python3 -c 'import socket, time; s = socket.create_server((\"\", 8000)); time.sleep(99)' \
                       >/dev/null 2>&1 & sleep 2; hostname -i";
        let address = other.sh(listens).await.split_whitespace().next().unwrap().to_owned();
        assert!(!reaches(&one, &address, 8000).await, "{address} was reached");
        assert!(reaches(&other, "127.0.0.1", 8000).await, "it listens");

        let alone = host.make(NetworkMode::Isolated).await;
        for address in [PUBLIC[0], DENIED[0], HOST[0]] {
            assert!(!reaches(&alone, address, PORT).await, "{address} was reached");
        }

        host.provider().stop(one.spec.id).await.unwrap();
        host.subject.resume(&one).await;
        keeps_to_its_network(&one).await;

        // Another server finds the network and what is on it.
        let host = host.again();
        assert!(host.provider().health().await.is_healthy());
        host.subject.resume(&one).await;
        keeps_to_its_network(&one).await;
        let third = host.make(NetworkMode::Internet).await;
        keeps_to_its_network(&third).await;
        for id in [one.spec.id, other.spec.id, alone.spec.id, third.spec.id] {
            host.provider().destroy(id).await.unwrap();
        }
        assert!(host.provider().list().await.unwrap().is_empty());
    });
}

#[test]
fn what_others_remove_is_put_back_before_the_next_container() {
    on_a_host_with_docker(|docker, _internet| async move {
        let host = Host::new(docker);
        assert!(host.provider().health().await.is_healthy());
        let table = bridge_table_name(host.installation);
        run("nft", &format!("delete table inet {table}"));
        let one = host.make(NetworkMode::Internet).await;
        keeps_to_its_network(&one).await;
        // While it runs, too.
        run("nft", &format!("delete table inet {table}"));
        assert!(host.provider().health().await.is_healthy());
        keeps_to_its_network(&one).await;
        host.provider().destroy(one.spec.id).await.unwrap();

        // The network itself, as `docker network prune` would.
        let link = bridge_link_name(host.installation);
        run("docker", &format!("--host {} network rm {link}", host.docker.address()));
        let two = host.make(NetworkMode::Internet).await;
        keeps_to_its_network(&two).await;
        host.provider().destroy(two.spec.id).await.unwrap();
    });
}

/// Docker is in another network namespace than the server, as where the server is a container itself.
#[test]
fn a_helper_puts_the_rules_where_docker_is() {
    apart_from_docker(|docker| async move {
        let host = Host::new(docker);
        assert!(host.provider().health().await.is_healthy());
        assert_eq!(host.provider().why_no_network(NetworkMode::Internet).await, None);
        let one = host.make(NetworkMode::Internet).await;
        // Nothing is behind that Docker; but it has an address, and names are asked for there.
        let gateway = one.sh("ip -4 route show default | cut -d ' ' -f 3").await.trim().to_owned();
        assert!(one.sh("cat /etc/resolv.conf").await.contains(&gateway), "{gateway}");
        // Somebody listens on Docker's host, and whoever is on that host reaches them.
        let listens = "import socket, time; s = socket.create_server(('', 2222)); time.sleep(300)";
        on_the_host_of_docker(&host.docker, &["-d"], &["python3", "-c", listens]);
        let connects = format!("sleep 2; exec 3<>/dev/tcp/{gateway}/2222 && echo reached");
        let seen = on_the_host_of_docker(&host.docker, &["--rm"], &["bash", "-c", &connects]);
        assert_eq!(seen, "reached\n", "it listens");
        assert!(!reaches(&one, &gateway, 2222).await, "{gateway} was reached");
        host.provider().destroy(one.spec.id).await.unwrap();
        let table = bridge_table_name(host.installation);
        assert!(!run("nft", "list tables").contains(&table), "the server's own host is left alone");
    });
}

/// Without an image that has its programs there is no helper, so the network is not offered, and a
/// request that names it is refused.
#[test]
fn a_network_that_cannot_be_upheld_is_refused() {
    apart_from_docker(|docker| async move {
        run("docker", &format!("--host {} rmi {TEST_IMAGE} emergent/workspace:latest", docker.address()));
        let host = Host::new(docker);
        assert!(host.provider().health().await.is_healthy());
        assert_eq!(host.provider().capabilities().await.networks, [NetworkMode::Isolated]);
        let why = host.provider().why_no_network(NetworkMode::Internet).await.unwrap();
        assert!(why.contains("emergent image build"), "{why}");
        let refused = host.provider().create(&host.spec(NetworkMode::Internet)).await;
        assert!(refused.is_err() && !matches!(refused, Err(ProviderError::TimedOut { .. })), "{refused:?}");
        assert!(host.provider().list().await.unwrap().is_empty());
    });
}
