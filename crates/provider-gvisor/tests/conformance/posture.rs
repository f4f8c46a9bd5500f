//! What Docker was told about a sandbox's container, as Docker itself says.

use std::collections::HashMap;

use bollard::Docker;
use bollard::models::{ContainerInspectResponse, HostConfig, MountPoint};
use bollard::query_parameters::InspectContainerOptions;
use emergent_provider::SandboxSpec;
use emergent_provider::conformance::{Subject, TestSandbox};
use emergent_provider_gvisor::{EngineAddress, Runtime};
use emergent_test_support::TestDocker;
use emergent_types::{ByteSize, Cpu, DiskEnforcement, NetworkMode, ResourceLimits};

const GIB: i64 = 1 << 30;

/// Inspects the container of a new sandbox with the default limits, and removes it.
async fn inspect(runtime: Runtime) -> (SandboxSpec, ContainerInspectResponse) {
    let docker = TestDocker::get();
    let address = docker.address().to_owned();
    let subject = crate::subject_with(docker, runtime);
    let mut spec = subject.spec();
    spec.limits = ResourceLimits {
        cpu: Cpu::from_millis(2000),
        memory: ByteSize::from_gib(4),
        disk: ByteSize::from_gib(10),
    };
    let sandbox = subject.provider.create(&spec).await.expect("create works");
    let inspected = container(&address, &sandbox.provider_id).await;
    subject.provider.destroy(spec.id).await.expect("destroy works");
    (spec, inspected)
}

/// What the Docker at an address says of a container.
async fn container(address: &str, name: &str) -> ContainerInspectResponse {
    let engine = Docker::connect_with_host(address).expect("an address").negotiate_version().await;
    let engine = engine.expect("Docker answers");
    engine.inspect_container(name, None::<InspectContainerOptions>).await.expect("the container is there")
}

fn host_config(inspected: &ContainerInspectResponse) -> &HostConfig {
    inspected.host_config.as_ref().expect("it has one")
}

/// What holds under every runtime, with every kind of disk and on every way to a container.
fn is_closed(spec: &SandboxSpec, disk: DiskEnforcement, inspected: &ContainerInspectResponse) {
    let host = host_config(inspected);
    assert_eq!(host.privileged, Some(false));
    assert_eq!(host.cap_drop.as_deref(), Some(&["ALL".to_owned()][..]));
    for forbidden in ["SYS_ADMIN", "NET_ADMIN", "NET_RAW", "SYS_PTRACE", "MKNOD", "SYS_MODULE"] {
        let added = host.cap_add.iter().flatten().any(|name| name.trim_start_matches("CAP_") == forbidden);
        assert!(!added, "{forbidden}");
    }
    let options = host.security_opt.clone().unwrap_or_default();
    assert!(options.iter().any(|option| option.starts_with("no-new-privileges")), "{options:?}");
    assert!(!options.iter().any(|option| option.contains("unconfined")), "{options:?}");
    assert_eq!(host.memory, host.memory_swap, "no swap beyond the memory");
    let network = host.network_mode.as_deref().expect("it has one");
    match spec.network {
        NetworkMode::Isolated => assert_eq!(network, "none"),
        // The installation's own bridge, and none that others are on.
        NetworkMode::Internet => assert!(network.starts_with("emgbr"), "{network}"),
    }
    for mode in [&host.pid_mode, &host.uts_mode, &host.userns_mode, &host.ipc_mode] {
        assert_ne!(mode.as_deref(), Some("host"));
    }
    assert!(host.port_bindings.as_ref().is_none_or(HashMap::is_empty), "{:?}", host.port_bindings);
    assert!(host.devices.as_ref().is_none_or(Vec::is_empty));
    assert!(host.pids_limit.is_some_and(|limit| limit > 0));
    let share = host.cpu_quota.unwrap_or(0) * 10_000;
    let cpus = host.nano_cpus.filter(|cpus| *cpus > 0).unwrap_or(share);
    assert_eq!(cpus, i64::from(spec.limits.cpu.millis()) * 1_000_000);
    let is_hard = disk == DiskEnforcement::Hard;
    assert_eq!(host.readonly_rootfs, Some(is_hard), "what can be written is on the disk");

    let everything = format!("{inspected:?}");
    let key = spec.agent_key.expose_hex();
    assert!(!everything.contains(&key), "the agent's key can be seen");
    assert!(!everything.contains("docker.sock"));

    let mounts = inspected.mounts.clone().unwrap_or_default();
    let at = |place: &str| -> &MountPoint {
        mounts.iter().find(|mount| mount.destination.as_deref() == Some(place)).expect("it is mounted")
    };
    assert_eq!(at("/.emergent").rw, Some(false), "nobody inside can change the agent");
    assert_eq!(at("/workspace").name.as_deref(), Some(&*format!("agent-workspace-{}", spec.id)));
    for mount in mounts.iter().filter(|mount| mount.typ.as_deref() == Some("bind")) {
        let source = mount.source.clone().unwrap_or_default();
        assert!(source.contains(&spec.id.to_string()), "{source} is not the workspace's own");
    }
    let config = inspected.config.as_ref().expect("it has one");
    let labels = config.labels.clone().unwrap_or_default();
    let foreign = labels.keys().find(|name| !name.starts_with("emergent."));
    assert_eq!(foreign, None, "a label that is not ours");
}

/// Proves: MIGR-1.6, GVIS-01, GVIS-06, GVIS-09, GVIS-10
#[tokio::test]
async fn a_container_under_gvisor() {
    let (spec, inspected) = inspect(Runtime::Runsc).await;
    is_closed(&spec, DiskEnforcement::Hard, &inspected);
    let host = host_config(&inspected);
    assert_eq!(host.runtime.as_deref(), Some("runsc"));
    // The wall stands a little above: reaching it would end the sandbox and not one process.
    let memory = host.memory.expect("there is a limit");
    assert!((4 * GIB..5 * GIB).contains(&memory), "{memory}");
}

/// Docker's own runtime is another provider, with another level and a warning; and closed as well.
#[tokio::test]
async fn a_container_under_dockers_own_runtime() {
    let (spec, inspected) = inspect(Runtime::Default).await;
    is_closed(&spec, DiskEnforcement::Hard, &inspected);
    let host = host_config(&inspected);
    assert_ne!(host.runtime.as_deref(), Some("runsc"));
    assert_eq!(host.memory, Some(4 * GIB));
}

/// All sandboxes have the same program for an agent. What one does to it is refused by the kernel of Docker's host,
/// and not only by what answers in its place: the others do not notice.
async fn the_agent_is_everybodys(runtime: Runtime) {
    let subject = crate::subject_with(TestDocker::get(), runtime);
    let (attacker, neighbour) = (subject.sandbox().await, subject.sandbox().await);
    let program = "/.emergent/emergent-agent";
    let size = neighbour.sh(&format!("stat -c %s {program}")).await;
    for attack in [
        format!("echo x > {program}"),
        format!("truncate -s 0 {program}"),
        format!("dd if=/dev/zero of={program} bs=1 count=1 conv=notrunc"),
        format!("rm -f {program} && ! test -e {program}"),
        format!("chmod 0 {program}"),
        format!("mv {program} /.emergent/other"),
        "touch /.emergent/new".to_owned(),
    ] {
        assert_ne!(attacker.run(&attack).await.exit.code, 0, "{attack}");
    }
    for sandbox in [&attacker, &neighbour, &subject.sandbox().await] {
        assert_eq!(sandbox.sh(&format!("stat -c %s {program}")).await, size);
    }
}

#[tokio::test]
async fn nobody_changes_the_agent_of_others_under_gvisor() {
    the_agent_is_everybodys(Runtime::Runsc).await;
}

#[tokio::test]
async fn nobody_changes_the_agent_of_others_under_dockers_own_runtime() {
    the_agent_is_everybodys(Runtime::Default).await;
}

/// Made, resumed and restored, with and without a network.
fn every_way_is_closed(disk: DiskEnforcement) {
    let docker = TestDocker::get();
    let address = docker.address().to_owned();
    let engine = match disk {
        DiskEnforcement::Hard => address.clone(),
        _ => docker.address_by_tcp(),
    };
    Subject::run(
        async move || crate::subject_at(EngineAddress::new(engine), docker, Runtime::Runsc),
        move |subject| Box::pin(async move { check_every_way(subject, disk, &address).await }),
    );
}

async fn check_every_way(subject: &Subject, disk: DiskEnforcement, address: &str) {
    let look = async |sandbox: &TestSandbox| {
        assert_eq!(sandbox.sandbox.disk_enforcement, disk);
        let inspected = container(address, &sandbox.sandbox.provider_id).await;
        is_closed(&sandbox.spec, disk, &inspected);
        assert_eq!(host_config(&inspected).runtime.as_deref(), Some("runsc"));
    };
    for network in [NetworkMode::Isolated, NetworkMode::Internet] {
        let spec = || SandboxSpec { network, ..subject.spec() };
        let made = subject.sandbox_with(spec()).await;
        look(&made).await;
        subject.provider.stop(made.id()).await.expect("stop works");
        subject.resume(&made).await;
        look(&made).await;
        let snapshot = subject.snapshot_id();
        subject.provider.snapshot(snapshot, &made.spec).await.expect("snapshot works");
        look(&subject.restored_with(snapshot, spec()).await).await;
    }
}

#[test]
fn every_way_to_a_container_is_closed() {
    every_way_is_closed(DiskEnforcement::Hard);
}

#[test]
fn every_way_to_a_container_on_volumes_is_closed() {
    every_way_is_closed(DiskEnforcement::Monitored);
}
