//! What a sandbox is made of: everything that runsc is told about it, in one place.

use std::net::IpAddr;
use std::path::Path;

use emergent_provider::SandboxSpec;
use emergent_types::ResourceLimits;
use serde_json::{Value, json};

use super::named_volumes::BoundVolume;
use crate::agent_volume::{FOLDER, PROGRAM};
use crate::container::{CAPABILITIES, SENTRY_THREADS, agent_arguments, memory_wall, share, tmpfs};
use crate::options::Runtime;

/// What programs find in their environment: what `emergent image build` tells Docker, and nothing of this
/// process's own.
const ENVIRONMENT: [&str; 2] =
    ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"];

/// How long one turn on the processors is, in microseconds.
pub(super) const CPU_PERIOD: u64 = 100_000;

/// What a sandbox is made with.
pub(super) struct Bundle<'a> {
    pub(super) spec: &'a SandboxSpec,
    /// The image with the workspace's disk over it.
    pub(super) root: &'a Path,
    /// The folder of the agent's program, which is mounted read-only.
    pub(super) agent: &'a Path,
    /// Volumes, mounted on the host and bound in.
    pub(super) volumes: &'a [BoundVolume],
    pub(super) control_group: &'a str,
    /// Whether memory and swap can be limited together.
    pub(super) counts_swap: bool,
    /// The network namespace with its link; `None` is one of its own with nothing in it.
    pub(super) namespace: Option<&'a str>,
    /// Whom it asks for names.
    pub(super) nameservers: &'a [IpAddr],
}

impl Bundle<'_> {
    /// The file `config.json` of the bundle.
    pub(super) fn config(&self) -> Value {
        let limits = self.spec.limits;
        let mut arguments = vec![PROGRAM.to_owned()];
        arguments.extend(agent_arguments(Runtime::Runsc, limits, self.nameservers));
        let capabilities: Vec<String> = CAPABILITIES.iter().map(|name| format!("CAP_{name}")).collect();
        json!({
            "ociVersion": "1.0.2",
            "hostname": self.spec.id.hostname(),
            "root": { "path": self.root, "readonly": false },
            "process": {
                "terminal": false,
                // Whoever a command is to be: the agent switches accounts itself.
                "user": { "uid": 0, "gid": 0 },
                "args": arguments,
                "env": ENVIRONMENT,
                "cwd": "/",
                "capabilities": {
                    "bounding": capabilities,
                    "effective": capabilities,
                    "permitted": capabilities,
                    "inheritable": [],
                    "ambient": [],
                },
                "noNewPrivileges": true,
            },
            "mounts": self.mounts(),
            "linux": {
                "cgroupsPath": format!("/{}", self.control_group),
                "namespaces": self.namespaces(),
                "resources": resources(limits, self.counts_swap),
            },
        })
    }

    fn mounts(&self) -> Vec<Value> {
        let limits = self.spec.limits;
        let mut mounts = vec![
            json!({ "destination": "/proc", "type": "proc", "source": "proc" }),
            json!({ "destination": "/sys", "type": "sysfs", "source": "sysfs",
                    "options": ["nosuid", "noexec", "nodev", "ro"] }),
            json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs" }),
            json!({ "destination": "/dev/shm", "type": "tmpfs", "source": "shm",
                    "options": ["nosuid", "noexec", "nodev", "mode=1777", format!("size={}", share(limits, 4))] }),
            json!({ "destination": FOLDER, "type": "bind", "source": self.agent,
                    "options": ["bind", "ro", "nosuid", "nodev"] }),
        ];
        let mut memory: Vec<_> = tmpfs(limits).into_iter().collect();
        memory.sort();
        mounts.extend(memory.into_iter().map(|(place, options)| {
            let mut options: Vec<&str> = options.split(',').collect();
            options.extend(["nosuid", "nodev"]);
            json!({ "destination": place, "type": "tmpfs", "source": "tmpfs", "options": options })
        }));
        mounts.extend(self.volumes.iter().map(|volume| {
            json!({ "destination": volume.target, "type": "bind", "source": volume.source,
                    "options": ["bind", "rw", "nosuid", "nodev"] })
        }));
        mounts
    }

    fn namespaces(&self) -> Vec<Value> {
        let mut namespaces: Vec<Value> =
            ["pid", "mount", "ipc", "uts"].into_iter().map(|kind| json!({ "type": kind })).collect();
        namespaces.push(match self.namespace {
            Some(path) => json!({ "type": "network", "path": path }),
            None => json!({ "type": "network" }),
        });
        namespaces
    }
}

fn resources(limits: ResourceLimits, counts_swap: bool) -> Value {
    let wall = memory_wall(Runtime::Runsc, limits);
    let memory = match counts_swap {
        // Equal: no swap beyond the memory.
        true => json!({ "limit": wall, "swap": wall }),
        false => json!({ "limit": wall }),
    };
    let quota = u64::from(limits.cpu.millis()) * CPU_PERIOD / 1000;
    json!({
        "memory": memory,
        "cpu": { "period": CPU_PERIOD, "quota": quota },
        "pids": { "limit": SENTRY_THREADS },
    })
}
