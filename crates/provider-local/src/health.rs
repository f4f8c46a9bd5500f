//! Whether creates are expected to work, and if not, what to do about it.
//!
//! What can be seen is looked at every time; whether it all works together is tried once, by
//! making and removing a real sandbox, and again for as long as that fails.

use std::fs;
use std::sync::{Mutex, PoisonError};

use emergent_agent_client::AgentKey;
use emergent_provider::{Health, Operation, ProviderError, SandboxSpec};
use emergent_types::{NetworkMode, ResourceLimits, WorkspaceId};
use rustix::thread::{CapabilitySet, capabilities};

use crate::cgroup::Cgroups;
use crate::disk::find_mkfs;
use crate::provider::Host;

/// Whether a real sandbox has worked.
#[derive(Default)]
pub(crate) struct Probe {
    passed: Mutex<bool>,
    sandbox: Mutex<Option<WorkspaceId>>,
}

impl Probe {
    /// The sandbox that is being tried right now.
    pub(crate) fn under_way(&self) -> Option<WorkspaceId> {
        *self.sandbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_under_way(&self, id: Option<WorkspaceId>) {
        *self.sandbox.lock().unwrap_or_else(PoisonError::into_inner) = id;
    }
}

impl Host {
    pub(crate) fn health(&self) -> Health {
        let missing: Vec<String> = CHECKS.iter().filter_map(|check| check()).collect();
        if !missing.is_empty() {
            return Health::Unhealthy { reason: missing.join("; ") };
        }
        let mut passed = self.probe.passed.lock().unwrap_or_else(PoisonError::into_inner);
        if !*passed {
            if let Err(error) = self.try_sandbox() {
                return Health::Unhealthy { reason: error.to_string() };
            }
            *passed = true;
        }
        Health::Healthy
    }

    /// Makes a sandbox of the usual size and removes it. Its template is the one the first
    /// workspace will want.
    fn try_sandbox(&self) -> Result<(), ProviderError> {
        let id = WorkspaceId::generate();
        let spec = SandboxSpec {
            id,
            limits: ResourceLimits::WORKSPACE_DEFAULT,
            network: NetworkMode::Isolated,
            base_image: None,
            agent_key: AgentKey::derive(id.as_uuid().as_bytes(), id),
        };
        let prepared = self.prepared()?;
        self.probe.set_under_way(Some(id));
        let made = self.make(&prepared, &spec);
        let removed = self.remove(&prepared, Operation::Destroy, id);
        self.probe.set_under_way(None);
        made.and(removed)
    }
}

/// Each names what is missing and how to get it.
const CHECKS: [fn() -> Option<String>; 6] =
    [check_root, check_mkfs, check_loop_devices, check_user_namespaces, check_cgroups, check_ext4];

fn check_root() -> Option<String> {
    let privileged = capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN));
    (!rustix::process::geteuid().is_root() || !privileged).then(|| {
        "the server is not root with CAP_SYS_ADMIN; start it with sudo or as a system service".to_owned()
    })
}

fn check_mkfs() -> Option<String> {
    find_mkfs().is_none().then(|| "mkfs.ext4 is not installed; install the package e2fsprogs".to_owned())
}

fn check_loop_devices() -> Option<String> {
    fs::File::open("/dev/loop-control").err().map(|error| {
        format!("/dev/loop-control cannot be opened ({error}); load the kernel module with `modprobe loop`")
    })
}

fn check_user_namespaces() -> Option<String> {
    let limit = fs::read_to_string("/proc/sys/user/max_user_namespaces").unwrap_or_default();
    match limit.trim().parse::<u64>() {
        Ok(0) => Some(
            "user namespaces are switched off; allow them with `sysctl user.max_user_namespaces=10000`"
                .to_owned(),
        ),
        Ok(_) => None,
        Err(_) => Some("this kernel has no user namespaces (CONFIG_USER_NS)".to_owned()),
    }
}

fn check_cgroups() -> Option<String> {
    match Cgroups::detect() {
        Ok(Some(cgroups)) => match cgroups.missing()[..] {
            [] => None,
            ref missing => Some(format!(
                "control group controllers are missing: {}; boot with them enabled",
                missing.join(", ")
            )),
        },
        Ok(None) => Some("control groups are not mounted at /sys/fs/cgroup; mount cgroup2 there".to_owned()),
        Err(error) => Some(format!("control groups cannot be looked at: {error}")),
    }
}

fn check_ext4() -> Option<String> {
    // A module that is not loaded yet is loaded by the first mount.
    let known = fs::read_to_string("/proc/filesystems")
        .is_ok_and(|text| text.lines().any(|line| line.ends_with("\text4")));
    let loadable = fs::metadata("/lib/modules").is_ok();
    (!known && !loadable).then(|| "this kernel has no ext4; load it with `modprobe ext4`".to_owned())
}
