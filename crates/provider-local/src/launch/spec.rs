//! What `libcontainer` is told: the OCI runtime specification of a sandbox. Built from
//! numbers and constants only; no text of a request reaches it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use emergent_types::{ByteSize, Cpu, Enforcement};
use libcontainer::oci_spec::OciSpecError;
use libcontainer::oci_spec::runtime::{
    Capability, Linux, LinuxBuilder, LinuxCapabilitiesBuilder, LinuxCpuBuilder, LinuxDeviceCgroupBuilder,
    LinuxIdMappingBuilder, LinuxMemoryBuilder, LinuxNamespace, LinuxNamespaceBuilder, LinuxNamespaceType,
    LinuxPidsBuilder, LinuxResources, LinuxResourcesBuilder, Mount, MountBuilder, Process, ProcessBuilder,
    RootBuilder, Spec, SpecBuilder, UserBuilder,
};

pub(super) use super::helper::LISTEN_FD;
use super::request::LaunchRequest;
use super::rootfs::AGENT_FOLDER;
use super::stage;
use crate::cgroup::{self, Cgroups, Swap};
use crate::layout::AGENT_PROGRAM;
use crate::memory_folders;
use crate::uid_range::UidRange;

/// Processes and threads a sandbox may have at once: one for every 256 KiB of its memory, so
/// that a fork bomb meets this wall before it meets the memory's, and no more than 4,096.
/// Enough for a parallel build or a browser, too few to starve the host of process ids.
pub(crate) fn max_pids(memory: ByteSize) -> i64 {
    i64::try_from(memory.bytes() / (256 << 10)).unwrap_or(i64::MAX).clamp(512, 4096)
}

/// Terminals a sandbox may have at once. The kernel has some 3,000 for all of them together.
pub(super) const MAX_TERMINALS: u32 = 256;

/// One period of the processor quota, in microseconds.
pub(crate) const CPU_PERIOD: u64 = 100_000;

/// The processor quota of one period, in microseconds.
pub(crate) fn cpu_quota(cpu: Cpu) -> u64 {
    u64::from(cpu.millis()) * CPU_PERIOD / 1000
}

/// What the first process may do inside its own namespaces. The agent's init drops what only
/// it needs (`NET_ADMIN` to bring up loopback, `SETPCAP` to drop the rest).
const CAPABILITIES: [Capability; 13] = [
    Capability::Chown,
    Capability::DacOverride,
    Capability::Fowner,
    Capability::Fsetid,
    Capability::Kill,
    Capability::NetAdmin,
    Capability::NetBindService,
    Capability::Setfcap,
    Capability::Setgid,
    Capability::Setpcap,
    Capability::Setuid,
    Capability::SysChroot,
    Capability::AuditWrite,
];

/// Hidden from the sandbox. To what every container runtime hides, this adds the block devices
/// and file systems of the host, whose attributes name the files behind other sandboxes' disks
/// and whose counters tell what they do.
pub(super) const MASKED: [&str; 26] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/cmdline",
    "/proc/diskstats",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/partitions",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/block",
    "/sys/class/block",
    "/sys/dev/block",
    "/sys/devices/virtual/block",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/btrfs",
    "/sys/fs/ext4",
    "/sys/fs/f2fs",
    "/sys/fs/xfs",
    "/sys/kernel/security",
];

pub(super) const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/sys/fs/cgroup"];

/// The sandbox's specification. `user_namespace` is where the namespace made for it is found,
/// and `network` likewise, if it is to be connected.
pub(crate) fn for_request(
    request: &LaunchRequest,
    user_namespace: String,
    network: Option<String>,
) -> Result<Spec, OciSpecError> {
    SpecBuilder::default()
        .version("1.0.2")
        .root(RootBuilder::default().path(stage::SANDBOX).readonly(false).build()?)
        .hostname(request.workspace.hostname())
        .process(process(&request.agent_key)?)
        .mounts(mounts(request)?)
        .linux(linux(request, user_namespace, network)?)
        .build()
}

/// What the first process executes.
pub(super) fn agent_command() -> Vec<String> {
    let listen_fd = LISTEN_FD.to_string();
    let program = format!("/{AGENT_FOLDER}/{AGENT_PROGRAM}");
    let options = ["--workspace", "/workspace", "--seccomp", "--loopback", "--drop-capabilities"];
    [&program, "init", "--listen-fd", &listen_fd].into_iter().chain(options).map(str::to_owned).collect()
}

/// With which environment.
pub(super) fn agent_environment(agent_key: &str) -> [String; 4] {
    [
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        "HOME=/root".to_owned(),
        "LANG=C.UTF-8".to_owned(),
        format!("EMERGENT_AGENT_KEY={agent_key}"),
    ]
}

fn process(agent_key: &str) -> Result<Process, OciSpecError> {
    let allowed: HashSet<Capability> = CAPABILITIES.into_iter().collect();
    let capabilities = LinuxCapabilitiesBuilder::default()
        .bounding(allowed.clone())
        .permitted(allowed.clone())
        .effective(allowed)
        .inheritable(HashSet::new())
        .ambient(HashSet::new())
        .build()?;
    ProcessBuilder::default()
        .terminal(false)
        .user(UserBuilder::default().uid(0u32).gid(0u32).umask(0o022u32).build()?)
        .args(agent_command())
        .env(agent_environment(agent_key))
        .cwd("/")
        .capabilities(capabilities)
        .no_new_privileges(true)
        // Limits of open files and the like are the helper's own and inherited.
        .rlimits(Vec::new())
        .build()
}

/// What is mounted by the sandbox itself: file systems that live in its own namespaces.
fn mounts(request: &LaunchRequest) -> Result<Vec<Mount>, OciSpecError> {
    let [tmp, shm, run] =
        memory_folders::sizes(request.limits.memory).map(|(_, size)| format!("size={size}"));
    let terminals = format!("max={MAX_TERMINALS}");
    let mut mounts = vec![
        mount("proc", "proc", "/proc", &["nosuid", "noexec", "nodev"])?,
        mount("tmpfs", "tmpfs", "/dev", &["nosuid", "noexec", "strictatime", "mode=755", "size=64k"])?,
        mount(
            "devpts",
            "devpts",
            "/dev/pts",
            &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5", &terminals],
        )?,
        mount("tmpfs", "shm", "/dev/shm", &["nosuid", "noexec", "nodev", "mode=1777", &shm])?,
        mount("mqueue", "mqueue", "/dev/mqueue", &["nosuid", "noexec", "nodev"])?,
        mount("tmpfs", "tmpfs", "/tmp", &["nosuid", "nodev", "mode=1777", &tmp])?,
        mount("tmpfs", "tmpfs", "/run", &["nosuid", "nodev", "mode=755", &run])?,
        mount("sysfs", "sysfs", "/sys", &["nosuid", "noexec", "nodev", "ro"])?,
    ];
    if let Cgroups::V1(_) = request.cgroups {
        mounts.push(mount(
            "tmpfs",
            "tmpfs",
            cgroup::ROOT,
            &["nosuid", "noexec", "nodev", "mode=755", "size=64k"],
        )?);
    }
    for view in request.cgroups.views(&request.group) {
        mounts.push(
            MountBuilder::default()
                .typ("bind")
                .source(view.source)
                .destination(view.destination)
                .options(["bind", "ro", "nosuid", "noexec", "nodev"].map(str::to_owned))
                .build()?,
        );
    }
    Ok(mounts)
}

fn mount(kind: &str, source: &str, destination: &str, options: &[&str]) -> Result<Mount, OciSpecError> {
    MountBuilder::default()
        .typ(kind)
        .source(source)
        .destination(destination)
        .options(options.iter().map(|option| (*option).to_owned()).collect::<Vec<_>>())
        .build()
}

fn linux(
    request: &LaunchRequest,
    user_namespace: String,
    network: Option<String>,
) -> Result<Linux, OciSpecError> {
    let mapping = vec![
        LinuxIdMappingBuilder::default()
            .container_id(0u32)
            .host_id(request.ids.first)
            .size(UidRange::SIZE)
            .build()?,
    ];
    LinuxBuilder::default()
        .uid_mappings(mapping.clone())
        .gid_mappings(mapping)
        .namespaces(namespaces(user_namespace, network)?)
        .cgroups_path(Path::new("/").join(&request.group).join(cgroup::SANDBOX))
        .resources(resources(request)?)
        .rootfs_propagation("private")
        .masked_paths(MASKED.map(str::to_owned))
        .readonly_paths(READ_ONLY.map(str::to_owned))
        .sysctl(HashMap::from([
            // A user namespace inside the sandbox would bring back every capability, and with
            // it most of the kernel's attack surface.
            ("user.max_user_namespaces".to_owned(), "0".to_owned()),
        ]))
        .build()
}

fn namespaces(user_namespace: String, network: Option<String>) -> Result<Vec<LinuxNamespace>, OciSpecError> {
    let fresh = [
        LinuxNamespaceType::Mount,
        LinuxNamespaceType::Pid,
        LinuxNamespaceType::Ipc,
        LinuxNamespaceType::Uts,
        LinuxNamespaceType::Cgroup,
    ];
    let user = LinuxNamespaceBuilder::default()
        .typ(LinuxNamespaceType::User)
        .path(PathBuf::from(user_namespace))
        .build();
    let mut of_network = LinuxNamespaceBuilder::default().typ(LinuxNamespaceType::Network);
    if let Some(path) = network {
        of_network = of_network.path(PathBuf::from(path));
    }
    [user, of_network.build()]
        .into_iter()
        .chain(fresh.map(|kind| LinuxNamespaceBuilder::default().typ(kind).build()))
        .collect()
}

fn resources(request: &LaunchRequest) -> Result<LinuxResources, OciSpecError> {
    let enforced = request.enforced;
    let is_on = |limit| limit == Enforcement::Enforced;
    let memory_limit = i64::try_from(request.limits.memory.bytes()).unwrap_or(i64::MAX);
    let memory = LinuxMemoryBuilder::default().limit(memory_limit);
    let mut unified = HashMap::new();
    // The limit is that of memory and swap together.
    let memory = match request.cgroups.swap() {
        Swap::CountedWithMemory => memory.swap(memory_limit),
        Swap::CountedApart => {
            // Not as the specification's `swap`: libcontainer 0.7 takes the zero that is left
            // for "unset", and there would be no limit at all.
            unified.insert("memory.swap.max".to_owned(), "0".to_owned());
            memory
        }
        Swap::NotCounted => memory.swappiness(0u64),
    };
    let quota = cpu_quota(request.limits.cpu);
    let nothing_but_the_usual = LinuxDeviceCgroupBuilder::default().allow(false).access("rwm").build()?;
    let mut resources = LinuxResourcesBuilder::default().devices(vec![nothing_but_the_usual]);
    if is_on(enforced.memory) {
        resources = resources.memory(memory.build()?).unified(unified);
    }
    if is_on(enforced.cpu) {
        resources = resources.cpu(LinuxCpuBuilder::default().period(CPU_PERIOD).quota(quota as i64).build()?);
    }
    if is_on(enforced.pids) {
        let limit = max_pids(request.limits.memory);
        resources = resources.pids(LinuxPidsBuilder::default().limit(limit).build()?);
    }
    resources.build()
}

#[cfg(test)]
mod tests {
    use super::super::request::DiskContent;
    use super::*;
    use crate::means::{DiskKind, Launcher};
    use emergent_types::{DiskEnforcement, InstallationId, LimitEnforcement, ResourceLimits, WorkspaceId};
    use serde_json::{Value, json};

    const ALL: LimitEnforcement = LimitEnforcement {
        cpu: Enforcement::Enforced,
        memory: Enforcement::Enforced,
        pids: Enforcement::Enforced,
        disk: DiskEnforcement::Hard,
    };

    fn spec_on(mountinfo: &str) -> Value {
        spec_with(mountinfo, ALL)
    }

    fn spec_with(mountinfo: &str, enforced: LimitEnforcement) -> Value {
        let request = LaunchRequest {
            installation: InstallationId::generate(),
            workspace: WorkspaceId::generate(),
            server: 1,
            state_folder: "/state".into(),
            agent_folder: "/agents".into(),
            system_folders: vec!["usr".to_owned()],
            launcher: Launcher::Root,
            disk: DiskKind::Image,
            content: DiskContent::New,
            ids: UidRange { first: 0x7000_0000 },
            limits: ResourceLimits {
                cpu: Cpu::from_millis(1500),
                memory: ByteSize::from_mib(256),
                disk: ByteSize::from_gib(1),
            },
            connected: false,
            cgroups: Cgroups::from_mountinfo(mountinfo),
            enforced,
            group: "emergent-x/id".to_owned(),
            agent_key: "00".to_owned(),
        };
        serde_json::to_value(for_request(&request, "/proc/self/fd/9".to_owned(), None).unwrap()).unwrap()
    }

    const V1: &str = "1 1 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      1 1 0:1 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids";
    const V2: &str = "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup rw";

    #[test]
    fn limits_are_the_same_walls_in_both_layouts() {
        for spec in [spec_on(V1), spec_on(V2)] {
            let resources = &spec["linux"]["resources"];
            assert_eq!(resources["cpu"]["quota"], json!(150_000));
            assert_eq!(resources["cpu"]["period"], json!(100_000));
            assert_eq!(resources["memory"]["limit"], json!(256 << 20));
            assert_eq!(resources["pids"]["limit"], json!(1024));
            assert_eq!(resources["devices"], json!([{"allow": false, "access": "rwm"}]));
            assert_eq!(spec["linux"]["cgroupsPath"], json!("/emergent-x/id/sandbox"));
        }
        // No swap: as a limit of its own where swap is counted apart.
        let apart = spec_on(V2);
        assert_eq!(apart["linux"]["resources"]["unified"]["memory.swap.max"], json!("0"));
        assert_eq!(apart["linux"]["resources"]["memory"]["swap"], Value::Null);
    }

    #[test]
    fn each_limit_is_left_out_on_its_own() {
        let off = Enforcement::NotEnforced;
        for (enforced, absent) in [
            (LimitEnforcement { cpu: off, ..ALL }, "cpu"),
            (LimitEnforcement { memory: off, ..ALL }, "memory"),
            (LimitEnforcement { pids: off, ..ALL }, "pids"),
        ] {
            let spec = spec_with(V1, enforced);
            for limit in ["cpu", "memory", "pids"] {
                assert_eq!(spec["linux"]["resources"][limit].is_null(), limit == absent, "{limit}");
            }
        }
    }

    #[test]
    fn a_sandbox_sees_its_own_group_and_cannot_write_it() {
        for (layout, source, destination) in [
            (V1, "/sys/fs/cgroup/memory/emergent-x/id/sandbox", "/sys/fs/cgroup/memory"),
            (V2, "/sys/fs/cgroup/emergent-x/id/sandbox", "/sys/fs/cgroup"),
        ] {
            let spec = spec_on(layout);
            let view =
                spec["mounts"].as_array().unwrap().iter().find(|mount| mount["source"] == source).unwrap();
            assert_eq!(view["destination"], destination);
            assert!(view["options"].as_array().unwrap().contains(&json!("ro")));
        }
    }

    #[test]
    fn process_limits_follow_memory() {
        let check = |memory, limit| assert_eq!(max_pids(memory), limit);
        check(ByteSize::from_mib(32), 512);
        check(ByteSize::from_mib(256), 1024);
        check(ByteSize::from_gib(4), 4096);
        check(ByteSize::MAX, 4096);
    }
}
