//! A server that has another network than Docker: what it cannot do there itself, a helper does.

use std::process::Command;
use std::sync::Arc;

use emergent_host_net::{Namespace, bridge_table_name};
use emergent_provider::{ProviderError, SandboxSpec};
use emergent_test_support::{TEST_IMAGE, TestDocker};
use emergent_types::{InstallationId, NetworkMode};

use crate::containers::{Host, reaches};
use crate::world::run;

/// The server is in a network namespace of its own, with nothing around it, and Docker in another.
fn apart_from_docker<F: Future<Output = ()>>(test: impl FnOnce(TestDocker) -> F + Send) {
    apart_from(TestDocker::get, test);
}

/// The same with a Docker that can be ended, or whose host can lose its rules.
fn apart_from_a_docker_of_its_own<F: Future<Output = ()>>(test: impl FnOnce(TestDocker) -> F + Send) {
    apart_from(TestDocker::own, test);
}

fn apart_from<F: Future<Output = ()>>(
    docker: impl FnOnce() -> TestDocker + Send,
    test: impl FnOnce(TestDocker) -> F + Send,
) {
    TestDocker::prepare();
    let own = Namespace::make().unwrap();
    own.run(|| {
        let docker = docker();
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
        // Somebody listens there, and whoever is on that host reaches them.
        let listener = Listener::on_the_host_of(&host.docker);
        let connects = format!(
            "for i in $(seq 100); do \
             if (exec 3<>/dev/tcp/{gateway}/{}) 2>/dev/null; then echo reached; exit; fi; sleep 0.1; done",
            listener.port
        );
        let seen = on_the_host_of_docker(&host.docker, &["--rm"], &["bash", "-c", &connects]);
        assert_eq!(seen, "reached\n", "it listens");
        assert!(!reaches(&one, &gateway, listener.port).await, "{gateway} was reached");
        host.provider().destroy(one.spec.id).await.unwrap();
        let table = bridge_table_name(host.installation);
        assert!(!run("nft", "list tables").contains(&table), "the server's own host is left alone");
    });
}

/// Somebody who listens on Docker's host, for as long as this lives.
struct Listener<'a> {
    docker: &'a TestDocker,
    container: String,
    port: u16,
}

impl<'a> Listener<'a> {
    fn on_the_host_of(docker: &'a TestDocker) -> Self {
        // Of this process's own: other tests may use that Docker. Below those that systems hand out.
        let port = 10_000 + u16::try_from(std::process::id() % 20_000).unwrap();
        let listens = format!("import socket, time; s = socket.create_server(('', {port})); time.sleep(600)");
        let made = on_the_host_of_docker(docker, &["--rm", "-d"], &["python3", "-c", &listens]);
        Self { docker, container: made.trim().to_owned(), port }
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        let mut remove = Command::new("/usr/bin/docker");
        let _ = remove.args(["--host", self.docker.address(), "rm", "-f", &self.container]).output();
    }
}

/// A host that is started again has lost its rules, and Docker has not lost its network: the rules are there
/// again before the next container is, although nobody has looked since.
#[test]
fn a_helper_puts_the_rules_back_when_docker_was_away() {
    apart_from_a_docker_of_its_own(|docker| async move {
        let host = Host::new(docker);
        assert!(host.provider().health().await.is_healthy());
        let table = bridge_table_name(host.installation);
        let forget = format!("nft delete table inet {table} && nft delete table bridge {table}");
        for looks in [false, true] {
            let admin = ["--rm", "--cap-add", "NET_ADMIN"];
            on_the_host_of_docker(&host.docker, &admin, &["sh", "-c", &forget]);
            host.docker.daemon().end_by("KILL");
            if looks {
                assert!(!host.provider().health().await.is_healthy());
            }
            host.docker.daemon().start_again();
            let listener = Listener::on_the_host_of(&host.docker);
            let one = host.make(NetworkMode::Internet).await;
            let gateway = one.sh("ip -4 route show default | cut -d ' ' -f 3").await.trim().to_owned();
            assert!(!reaches(&one, &gateway, listener.port).await, "{gateway} was reached");
            let rules = on_the_host_of_docker(&host.docker, &admin, &["nft", "list", "tables"]);
            assert_eq!(rules.matches(&table).count(), 2, "{rules}");
            host.provider().destroy(one.spec.id).await.unwrap();
        }
    });
}

/// Where nothing holds a sandbox back on Docker's host, that is found out, and the network is not offered.
#[test]
fn a_sandbox_that_reaches_the_host_of_docker_is_noticed() {
    apart_from_a_docker_of_its_own(|docker| async move {
        let mut host = Host::new(docker);
        let table = bridge_table_name(host.installation);
        let forget = format!(
            "while sleep 1; do nft delete table inet {table}; nft delete table bridge {table}; done 2>/dev/null"
        );
        on_the_host_of_docker(&host.docker, &["-d", "--cap-add", "NET_ADMIN"], &["sh", "-c", &forget]);
        // The rules may be gone before a sandbox has tried anything; then that is what is told.
        for _ in 0..8 {
            assert!(host.provider().health().await.is_healthy());
            assert_eq!(host.provider().capabilities().await.networks, [NetworkMode::Isolated]);
            let why = host.provider().why_no_network(NetworkMode::Internet).await.unwrap();
            if why.contains("was not held back") {
                return;
            }
            println!("{why}");
            host = host.again();
        }
        panic!("no sandbox has reached what nothing keeps it from");
    });
}

/// What a killed server has left of its helpers is removed by the next one; they are known by a label.
#[test]
fn forgotten_helpers_are_removed() {
    apart_from_docker(|docker| async move {
        let host = Host::new(docker);
        assert!(host.provider().health().await.is_healthy());
        let ours = format!("label=emergent.installation={}", host.installation);
        let all = ["ps", "-aq", "--filter", &ours];
        assert_eq!(host.docker.docker(&all), "", "of those that have done their work nothing is left");
        let made = ["--filter", "type=container", "--filter", "event=create", "--filter", &ours];
        let told = ["events", "--since", "1", "--until", "0s", "--format", "{{json .}}"];
        let made = host.docker.docker(&[&told[..], &made].concat());
        let helpers: Vec<&str> = made.lines().filter(|line| line.contains("-helper-")).collect();
        assert!(helpers.len() > 1, "{made}");
        for helper in helpers {
            assert!(helper.contains(r#""emergent.role":"helper""#), "{helper}");
        }
        let installation = format!("emergent.installation={}", host.installation);
        let forgotten = ["--label", &installation, "--label", "emergent.provider=gvisor", "--label"];
        for made in [&["create"][..], &["run", "-d"]] {
            let program = ["emergent.role=helper", "--network=none", TEST_IMAGE, "sleep", "600"];
            host.docker.docker(&[made, &forgotten, &program].concat());
        }
        let host = host.again();
        assert!(host.provider().health().await.is_healthy());
        assert_eq!(host.docker.docker(&all), "");
    });
}

/// Without an image that has its programs there is no helper, so the network is not offered, and a
/// request that names it is refused.
#[test]
fn a_network_that_cannot_be_upheld_is_refused() {
    apart_from_docker(|docker| async move {
        let data = Arc::new(docker.data_folder());
        let helpers = "emergent/test-nowhere:1";
        let host = Host::with_default(helpers, InstallationId::generate(), Arc::new(docker), data);
        assert!(host.provider().health().await.is_healthy());
        assert_eq!(host.provider().capabilities().await.networks, [NetworkMode::Isolated]);
        let why = host.provider().why_no_network(NetworkMode::Internet).await.unwrap();
        assert!(why.contains("emergent image build"), "{why}");
        // Its own image is there.
        let base_image = Some(TEST_IMAGE.to_owned());
        let spec = SandboxSpec { base_image, ..host.spec(NetworkMode::Internet) };
        let refused = host.provider().create(&spec).await;
        assert!(matches!(refused, Err(ProviderError::NotEnforceable { what: "network", .. })), "{refused:?}");
        assert!(host.provider().list().await.unwrap().is_empty());
    });
}
