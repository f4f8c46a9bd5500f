//! What Docker was told about a sandbox's container, as Docker itself says.

use bollard::Docker;
use bollard::models::{ContainerInspectResponse, HostConfig, MountPoint};
use bollard::query_parameters::InspectContainerOptions;
use emergent_provider::SandboxSpec;
use emergent_provider_gvisor::Runtime;
use emergent_test_support::TestDocker;
use emergent_types::{ByteSize, Cpu, ResourceLimits};

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
    let engine = Docker::connect_with_host(&address).expect("an address").negotiate_version().await;
    let inspected = engine
        .expect("Docker answers")
        .inspect_container(&sandbox.provider_id, None::<InspectContainerOptions>)
        .await;
    subject.provider.destroy(spec.id).await.expect("destroy works");
    (spec, inspected.expect("the container is there"))
}

fn host_config(inspected: &ContainerInspectResponse) -> &HostConfig {
    inspected.host_config.as_ref().expect("it has one")
}

/// What holds under every runtime.
fn is_closed(spec: &SandboxSpec, inspected: &ContainerInspectResponse) {
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
    assert_eq!(host.network_mode.as_deref(), Some("none"));
    for mode in [&host.pid_mode, &host.uts_mode, &host.userns_mode] {
        assert_ne!(mode.as_deref(), Some("host"));
    }
    assert!(host.devices.as_ref().is_none_or(Vec::is_empty));
    assert!(host.pids_limit.is_some_and(|limit| limit > 0));
    assert_eq!(host.nano_cpus.or_else(|| host.cpu_quota.map(|quota| quota * 10_000)), Some(2_000_000_000));
    assert_eq!(host.readonly_rootfs, Some(true), "what can be written is on the disk");

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
    is_closed(&spec, &inspected);
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
    is_closed(&spec, &inspected);
    let host = host_config(&inspected);
    assert_ne!(host.runtime.as_deref(), Some("runsc"));
    assert_eq!(host.memory, Some(4 * GIB));
}
