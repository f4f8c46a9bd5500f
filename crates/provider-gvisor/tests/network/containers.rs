//! What containers under gVisor reach, on every way that leads to one.

use std::net::UdpSocket;
use std::sync::Arc;

use emergent_agent_client::{CommandSpec, StdioSpec};
use emergent_host_net::{Namespace, bridge_link_name, bridge_table_name};
use emergent_provider::conformance::{Subject, TestSandbox};
use emergent_provider::{SandboxSpec, WorkspaceProvider};
use emergent_provider_gvisor::{EngineAddress, GvisorProvider, Options, Runtime};
use emergent_test_support::{DaemonOptions, TEST_IMAGE, TestDocker};
use emergent_types::{InstallationId, NetworkMode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::{HOST, PORT, PUBLIC, on_a_host, run};

/// Some of what no sandbox may reach; the rules for all of it have tests of their own.
const DENIED: [&str; 5] = ["10.20.0.1", "169.254.169.254", "172.16.0.1", "192.168.7.1", "100.64.0.9"];

/// A provider, the Docker that it uses, and what both keep.
pub(crate) struct Host {
    pub(crate) subject: Subject,
    pub(crate) installation: InstallationId,
    pub(crate) docker: Arc<TestDocker>,
    data: Arc<tempfile::TempDir>,
}

impl Host {
    pub(crate) fn new(docker: TestDocker) -> Self {
        let data = docker.data_folder();
        Self::of(InstallationId::generate(), Arc::new(docker), Arc::new(data))
    }

    fn of(installation: InstallationId, docker: Arc<TestDocker>, data: Arc<tempfile::TempDir>) -> Self {
        Self::with_default(TEST_IMAGE, installation, docker, data)
    }

    /// With that image for helpers, and for sandboxes whose request names none.
    pub(crate) fn with_default(
        image: &str,
        installation: InstallationId,
        docker: Arc<TestDocker>,
        data: Arc<tempfile::TempDir>,
    ) -> Self {
        let provider = GvisorProvider::new(Options {
            data_dir: data.path().to_owned(),
            installation,
            agent: emergent_agent_bundle::bytes().into(),
            engine: EngineAddress::new(docker.address()),
            runtime: Runtime::Runsc,
            default_image: image.to_owned(),
            egress_allow: Vec::new(),
        });
        let keep = (Arc::clone(&data), Arc::clone(&docker));
        let subject = Subject::new(Arc::new(provider), Some("/workspace"), keep);
        Self { subject, installation, docker, data }
    }

    /// Another server on the same data.
    pub(crate) fn again(self) -> Self {
        Self::of(self.installation, self.docker, self.data)
    }

    pub(crate) fn provider(&self) -> &dyn WorkspaceProvider {
        self.subject.provider.as_ref()
    }

    pub(crate) fn spec(&self, network: NetworkMode) -> SandboxSpec {
        SandboxSpec { network, ..self.subject.spec() }
    }

    pub(crate) async fn make(&self, network: NetworkMode) -> TestSandbox {
        let made = self.subject.sandbox_with(self.spec(network)).await;
        assert_eq!(made.sandbox.network, network);
        made
    }
}

pub(crate) async fn reaches(sandbox: &TestSandbox, address: &str, port: u16) -> bool {
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
    on_a_host_with_a_docker(DaemonOptions::default(), test);
}

fn on_a_host_with_a_docker<F: Future<Output = ()>>(
    options: DaemonOptions,
    test: impl FnOnce(TestDocker, Namespace) -> F + Send,
) {
    TestDocker::prepare();
    on_a_host(|world| {
        let docker = TestDocker::own_with(DaemonOptions { own_network: false, ..options });
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(test(docker, world.internet));
    });
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
        let listens = "python3 -c 'import socket, time; s = socket.create_server((\"\", 8000)); \
                       open(\"listens\", \"w\"); time.sleep(99)' >/dev/null 2>&1 & \
                       until test -e listens; do sleep 0.1; done; hostname -i";
        let address = other.sh(listens).await.split_whitespace().next().unwrap().to_owned();
        assert!(!reaches(&one, &address, 8000).await, "{address} was reached");
        assert!(reaches(&other, "127.0.0.1", 8000).await, "it listens");

        let alone = host.make(NetworkMode::Isolated).await;
        let tried = [PUBLIC[0], DENIED[0], HOST[0]];
        assert!(reached_of(&alone, &tried, PORT).await.is_empty(), "one of {tried:?} was reached");

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

/// The rules hold while Docker is away, while it comes back and afterwards: for a sandbox that outlives it and
/// tries all the time, and for the next one.
#[test]
fn the_policy_holds_while_docker_is_away() {
    let options = DaemonOptions { live_restore: true, ..DaemonOptions::default() };
    on_a_host_with_a_docker(options, |docker, _internet| async move {
        let host = Host::new(docker);
        assert!(host.provider().health().await.is_healthy());
        let one = host.make(NetworkMode::Internet).await;
        let tries = |name: &str, addresses: &[&str]| {
            let addresses = addresses.join(" ");
            let tried = format!("timeout 1 bash -c \"exec 3<>/dev/tcp/$a/{PORT}\" 2>/dev/null");
            format!(
                "while :; do for a in {addresses}; do {tried} && echo $a >> {name}; echo >> {name}-tries; done; done"
            )
        };
        let denied: Vec<&str> = DENIED.iter().chain(&HOST[..2]).copied().collect();
        for (name, addresses) in [("denied", denied.as_slice()), ("public", &PUBLIC[..1])] {
            one.client.start_process(&CommandSpec::shell(tries(name, addresses))).await.unwrap();
        }
        for signal in ["KILL", "TERM"] {
            host.docker.daemon().end_by(signal);
            tokio::time::sleep(std::time::Duration::from_secs(2)).await;
            host.docker.daemon().start_again();
            // Before the provider has so much as looked.
            tokio::time::sleep(std::time::Duration::from_secs(2)).await;
            one.client.greet().await.unwrap();
            keeps_to_its_network(&one).await;
            let next = host.make(NetworkMode::Internet).await;
            keeps_to_its_network(&next).await;
            host.provider().destroy(next.spec.id).await.unwrap();
        }
        assert_eq!(one.run("cat denied").await.stdout.to_text(), "", "reached meanwhile");
        let number = async |file: &str| one.sh(&format!("wc -l < {file}")).await.parse::<u32>().unwrap();
        assert!(number("denied-tries").await > 10, "it was tried");
        assert!(number("public").await > 10, "it went on reaching what it may");
        if let Err(error) = host.provider().destroy(one.spec.id).await {
            // Docker 20.10 miscounts who uses a volume when a container has outlived its daemon.
            assert!(error.to_string().contains("volume has active mounts"), "{error}");
            host.docker.daemon().end_by("TERM");
            host.docker.daemon().start_again();
            host.provider().destroy(one.spec.id).await.unwrap();
        }
    });
}

/// A server inside is for the control plane: through the tunnel, and not at the container's address.
#[test]
fn a_server_inside_is_reached_through_the_tunnel_alone() {
    on_a_host_with_docker(|docker, _internet| async move {
        let host = Host::new(docker);
        assert!(host.provider().health().await.is_healthy());
        let one = host.make(NetworkMode::Internet).await;
        let serve = "import socket\nlistener = socket.create_server(('127.0.0.1', 8123))\nwhile True:\n  \
                     connection, _ = listener.accept()\n  connection.recv(4096)\n  \
                     connection.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\nhello')\n  connection.close()\n";
        let words = ["python3", "-c", serve];
        let _server = one.client.stdio(&StdioSpec::new(words)).await.unwrap();
        let mut tunnel = one.client.tunnel(8123).await;
        for _ in 0..100 {
            if tunnel.is_ok() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            tunnel = one.client.tunnel(8123).await;
        }
        let mut tunnel = tunnel.unwrap();
        tunnel.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
        let mut heard = Vec::new();
        tunnel.read_to_end(&mut heard).await.unwrap();
        assert!(heard.ends_with(b"hello"), "{}", String::from_utf8_lossy(&heard));

        let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}";
        let address = host.docker.docker(&["inspect", "--format", format, &one.sandbox.provider_id]);
        let address = std::net::SocketAddr::new(address.parse().unwrap(), 8123);
        let reached = std::net::TcpStream::connect_timeout(&address, std::time::Duration::from_secs(3));
        assert!(reached.is_err(), "{address} was reached");
        host.provider().destroy(one.spec.id).await.unwrap();
    });
}
