//! What a sandbox's container is made of: everything that Docker is told about it, in one place.

use std::collections::HashMap;
use std::net::IpAddr;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount, RestartPolicy,
    RestartPolicyNameEnum,
};
use emergent_provider::SandboxSpec;
use emergent_types::ResourceLimits;

use crate::agent_volume;
use crate::network::Connection;
use crate::options::Runtime;

/// Where tools start.
pub(crate) const WORKSPACE: &str = "/workspace";
/// Where the agent listens, inside.
pub(crate) const SOCKET: &str = "/run/emergent/agent.sock";

/// What installing packages, switching accounts and serving on low ports need; the same as the
/// agent leaves root with elsewhere.
pub(crate) const CAPABILITIES: [&str; 9] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
];

/// gVisor's own kernel counts against the control group of its sandbox, and so do the host's tables
/// for it, which grow with the processes inside (200 KiB each were seen). The group's wall stands
/// above the limit by as much, because reaching it ends the sandbox and not one process: init
/// upholds the limits inside.
const SENTRY_BYTES: u64 = 128 << 20;
const SENTRY_BYTES_PER_PROCESS: u64 = 256 << 10;

/// Threads of the host's that gVisor needs for what runs inside; with too few of them its kernel
/// panics. It takes one or two for each process.
pub(crate) const SENTRY_THREADS: i64 = 16 << 10;

/// What a sandbox's container is made with.
pub(crate) struct Plan<'a> {
    pub(crate) spec: &'a SandboxSpec,
    pub(crate) runtime: Runtime,
    pub(crate) labels: HashMap<String, String>,
    /// By the hash of its content.
    pub(crate) image: String,
    /// Variables that the workspace's image sets and that one does not, where Docker has lost the first.
    pub(crate) environment: Vec<String>,
    /// The agent, and everything that can be written to.
    pub(crate) mounts: Vec<Mount>,
    /// Whether the image itself cannot be written to: everything that can is among the mounts.
    pub(crate) read_only: bool,
    /// `None` is no network at all.
    pub(crate) connection: Option<Connection>,
    /// Processors of the engine's host.
    pub(crate) host_cpus: u32,
}

impl Plan<'_> {
    /// What Docker is asked for.
    pub(crate) fn body(self) -> ContainerCreateBody {
        let limits = self.spec.limits;
        let (network, nameservers) = match self.connection {
            Some(connection) => (connection.network, connection.nameservers),
            None => ("none".to_owned(), Vec::new()),
        };
        ContainerCreateBody {
            hostname: Some(self.spec.id.hostname()),
            // Whoever the image would be: the agent switches accounts itself.
            user: Some("0:0".to_owned()),
            image: Some(self.image),
            env: Some(self.environment),
            entrypoint: Some(vec![agent_volume::PROGRAM.to_owned()]),
            cmd: Some(agent_arguments(self.runtime, limits, &nameservers)),
            working_dir: Some("/".to_owned()),
            labels: Some(self.labels),
            // The key comes this way, and then the first connection. It ends with whoever is
            // connected, so that the agent notices.
            open_stdin: Some(true),
            stdin_once: Some(true),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(false),
            healthcheck: Some(HealthConfig {
                test: Some(vec!["NONE".to_owned()]),
                ..HealthConfig::default()
            }),
            host_config: Some(HostConfig {
                runtime: self.runtime.name().map(str::to_owned),
                mounts: Some(self.mounts),
                tmpfs: Some(tmpfs(limits)),
                shm_size: Some(share(limits, 4)),
                readonly_rootfs: Some(self.read_only),
                network_mode: Some(network),
                dns: Some(nameservers.iter().map(IpAddr::to_string).collect()),
                cap_drop: Some(vec!["ALL".to_owned()]),
                cap_add: Some(CAPABILITIES.map(str::to_owned).into()),
                security_opt: Some(vec!["no-new-privileges".to_owned()]),
                privileged: Some(false),
                ipc_mode: Some("private".to_owned()),
                restart_policy: Some(RestartPolicy {
                    name: Some(RestartPolicyNameEnum::NO),
                    ..RestartPolicy::default()
                }),
                // Standard output is a connection; nobody wants it in a log.
                log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
                ..resources(self.runtime, limits, self.host_cpus)
            }),
            ..ContainerCreateBody::default()
        }
    }
}

fn resources(runtime: Runtime, limits: ResourceLimits, host_cpus: u32) -> HostConfig {
    let memory = i64::try_from(memory_wall(runtime, limits)).ok();
    let millis = i64::from(limits.cpu.millis());
    let base = HostConfig {
        memory,
        // Equal: no swap beyond the memory.
        memory_swap: memory,
        pids_limit: Some(match runtime {
            Runtime::Runsc => SENTRY_THREADS,
            Runtime::Default => i64::try_from(process_limit(runtime, limits)).unwrap_or(SENTRY_THREADS),
        }),
        ..HostConfig::default()
    };
    // Docker refuses more processors than there are, where a limit that is never reached is fine.
    if millis <= i64::from(host_cpus) * 1000 {
        HostConfig { nano_cpus: Some(millis * 1_000_000), ..base }
    } else {
        HostConfig { cpu_period: Some(100_000), cpu_quota: Some(millis * 100), ..base }
    }
}

/// What its control group may use of the host's memory.
pub(crate) fn memory_wall(runtime: Runtime, limits: ResourceLimits) -> u64 {
    match runtime {
        Runtime::Runsc => {
            let per_process = process_limit(runtime, limits) * SENTRY_BYTES_PER_PROCESS;
            limits.memory.bytes().saturating_add(SENTRY_BYTES + per_process)
        }
        Runtime::Default => limits.memory.bytes(),
    }
}

/// One process per 256 KiB of memory, within reason, as on the embedded provider. Under gVisor a
/// process costs more: one per MiB.
fn process_limit(runtime: Runtime, limits: ResourceLimits) -> u64 {
    match runtime {
        Runtime::Runsc => (limits.memory.bytes() / (1 << 20)).clamp(256, 2048),
        Runtime::Default => (limits.memory.bytes() / (256 << 10)).clamp(512, 4096),
    }
}

/// Memory: a half and an eighth of the limit; `/dev/shm` has a quarter.
pub(crate) fn tmpfs(limits: ResourceLimits) -> HashMap<String, String> {
    [
        ("/tmp", format!("exec,mode=1777,size={}", share(limits, 2))),
        ("/run", format!("exec,mode=755,size={}", share(limits, 8))),
    ]
    .map(|(path, options)| (path.to_owned(), options))
    .into()
}

pub(crate) fn share(limits: ResourceLimits, part: u64) -> i64 {
    i64::try_from(limits.memory.bytes() / part).unwrap_or(i64::MAX)
}

pub(crate) fn agent_arguments(
    runtime: Runtime,
    limits: ResourceLimits,
    nameservers: &[IpAddr],
) -> Vec<String> {
    // It is started with what the image's author has set.
    let fixed = ["init", "--listen", SOCKET, "--workspace", WORKSPACE, "--stdio", "--image-environment"];
    let mut arguments: Vec<String> = fixed.map(str::to_owned).into();
    for address in nameservers {
        arguments.extend(["--nameserver".to_owned(), address.to_string()]);
    }
    if runtime == Runtime::Runsc {
        for (name, limit) in
            [("--memory-limit", limits.memory.bytes()), ("--process-limit", process_limit(runtime, limits))]
        {
            arguments.extend([name.to_owned(), limit.to_string()]);
        }
    }
    arguments
}
