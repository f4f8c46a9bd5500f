//! What a sandbox reaches, over its whole life.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use emergent_agent_client::AgentKey;
use emergent_provider::{NamedDemands, SandboxSpec, WorkspaceProvider};
use emergent_provider_local::{AgentSource, HelperCommand, LaunchStep, LocalProvider, Options};
use emergent_types::{ByteSize, Cpu, InstallationId, NetworkMode, ResourceLimits, WorkspaceId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::{HOST, PORT, PRIVATE, PUBLIC, World, on_a_host, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_emergent-local-helper");

fn provider(data_dir: &Path, installation: InstallationId, args: &[&str]) -> Arc<LocalProvider> {
    Arc::new(LocalProvider::new(Options {
        data_dir: data_dir.to_owned(),
        installation,
        agent: AgentSource::Path(PROGRAM.into()),
        helper: HelperCommand {
            program: PROGRAM.into(),
            args: args.iter().map(|argument| (*argument).to_owned()).collect(),
        },
    }))
}

fn spec(network: NetworkMode) -> SandboxSpec {
    let id = WorkspaceId::generate();
    let limits = ResourceLimits {
        cpu: Cpu::from_millis(1000),
        memory: ByteSize::from_mib(128),
        disk: ByteSize::from_mib(64),
    };
    SandboxSpec {
        id,
        limits,
        network,
        named: NamedDemands::default(),
        base_image: None,
        volumes: Vec::new(),
        agent_key: AgentKey::derive(b"test", id),
    }
}

/// Runs a script in a sandbox; its output and how it ended.
async fn script(provider: &LocalProvider, id: WorkspaceId, text: &str) -> String {
    let mut stream = provider.connect(id).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn reaches(provider: &LocalProvider, id: WorkspaceId, address: &str, port: u16) -> bool {
    let text = format!("timeout 3 bash -c 'exec 3<>/dev/tcp/{address}/{port} && echo reached'");
    script(provider, id, &text).await.contains("reached\n")
}

async fn keeps_to_its_network(provider: &LocalProvider, id: WorkspaceId) {
    for address in PUBLIC {
        assert!(reaches(provider, id, address, PORT).await, "{address} is not reached");
    }
    for address in ["10.20.0.1", "169.254.169.254", "fd77::1", "64:ff9b::a00:1"].iter().chain(&HOST) {
        assert!(!reaches(provider, id, address, PORT).await, "{address} was reached");
    }
    assert!(reaches(provider, id, "127.0.0.53", 53).await, "nobody answers for names");
    assert!(script(provider, id, "cat /etc/resolv.conf").await.contains("nameserver 127.0.0.53"));
}

/// A host, a folder, and a runtime all of whose threads are there.
fn with_sandboxes<F: Future<Output = ()>>(
    test: impl FnOnce(std::path::PathBuf, InstallationId, World) -> F + Send,
) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    on_a_host(|world| {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(test(path, InstallationId::generate(), world));
    });
}

async fn leaves_nothing(provider: Arc<LocalProvider>, installation: InstallationId) {
    assert!(provider.list().await.unwrap().is_empty());
    // It cleans up after itself on a thread of its own.
    tokio::task::spawn_blocking(move || drop(provider)).await.unwrap();
    let traces = |text: String, name: &str| text.lines().any(|line| line.contains(name));
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let links = traces(run("ip", "-o link show"), &emergent_host_net::link_prefix(installation));
        let tables = traces(run("nft", "list tables"), &emergent_host_net::table_name(installation));
        if !links && !tables {
            return;
        }
        assert!(Instant::now() < deadline, "left: links {links}, tables {tables}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn the_policy_is_the_same_on_every_path() {
    with_sandboxes(|folder, installation, _world| async move {
        let first = provider(&folder, installation, &[]);
        assert_eq!(first.capabilities().await.networks, [NetworkMode::Isolated, NetworkMode::Internet]);
        let (spec, other) = (spec(NetworkMode::Internet), spec(NetworkMode::Isolated));
        let made = first.create(&spec).await.unwrap();
        assert_eq!(made.network, NetworkMode::Internet);
        println!("{:?}", first.latest_launch());
        keeps_to_its_network(&first, spec.id).await;

        // One without a network has none.
        assert_eq!(first.create(&other).await.unwrap().network, NetworkMode::Isolated);
        for address in PUBLIC.iter().chain(&PRIVATE[..1]) {
            assert!(!reaches(&first, other.id, address, PORT).await, "{address} was reached");
        }

        first.stop(spec.id).await.unwrap();
        first.resume(&spec).await.unwrap();
        keeps_to_its_network(&first, spec.id).await;

        // Another server takes over what runs.
        tokio::task::spawn_blocking(move || drop(first)).await.unwrap();
        let second = provider(&folder, installation, &[]);
        second.resume(&spec).await.unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while !reaches(&second, spec.id, "127.0.0.53", 53).await {
            assert!(Instant::now() < deadline, "the forwarder does not come back");
        }
        keeps_to_its_network(&second, spec.id).await;
        for id in [spec.id, other.id] {
            second.destroy(id).await.unwrap();
        }
        leaves_nothing(second, installation).await;
    });
}

#[test]
fn a_launch_that_dies_at_any_step_leaves_nothing() {
    with_sandboxes(|folder, installation, _world| async move {
        let good = provider(&folder, installation, &[]);
        for step in
            [LaunchStep::Disk, LaunchStep::Cgroup, LaunchStep::Build, LaunchStep::Network, LaunchStep::Start]
        {
            let dying = provider(&folder, installation, &["--die-at", step.as_str()]);
            let spec = spec(NetworkMode::Internet);
            assert!(dying.create(&spec).await.is_err(), "{step}");
            assert!(good.list().await.unwrap().is_empty(), "{step} has left something");
            tokio::task::spawn_blocking(move || drop(dying)).await.unwrap();
        }
        leaves_nothing(good, installation).await;
    });
}
