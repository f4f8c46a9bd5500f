//! Whether creates are expected to work, and if not, what to do about it.
//!
//! What can be seen is looked at every time; whether it all works together is tried once, by
//! making and removing a real sandbox, and again for as long as that fails.

use std::fs;
use std::sync::{Mutex, PoisonError};

use emergent_agent_client::AgentKey;
use emergent_provider::{Health, NamedDemands, Operation, ProviderError, SandboxSpec};
use emergent_types::{NetworkMode, ResourceLimits, WorkspaceId};
use rustix::thread::{CapabilitySet, capabilities};

use crate::cgroup::Cgroups;
use crate::means::Launcher;
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
        let launcher = Launcher::of_this_process();
        let missing = missing(launcher);
        if !missing.is_empty() {
            return Health::Unhealthy { reason: missing.join("; ") };
        }
        let mut passed = self.probe.passed.lock().unwrap_or_else(PoisonError::into_inner);
        if !*passed {
            if let Err(error) = self.try_sandbox() {
                return Health::Unhealthy { reason: format!("{error}{}", likely_cause(launcher)) };
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
            named: NamedDemands::default(),
            volumes: Vec::new(),
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

/// What is missing for sandboxes to be made at all, and how to get it.
fn missing(launcher: Launcher) -> Vec<String> {
    let checks: &[fn() -> Option<String>] = match launcher {
        Launcher::Root => &[check_root, check_user_namespaces, check_cgroups],
        Launcher::Unprivileged => &[check_user_namespaces, check_unprivileged_user_namespaces],
    };
    checks.iter().filter_map(|check| check()).collect()
}

fn check_root() -> Option<String> {
    let privileged = capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN));
    (!privileged).then(|| {
        "the server is root without CAP_SYS_ADMIN; run it outside of a container, in a privileged one, or \
         as an ordinary account"
            .to_owned()
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

/// Debian's and Arch's own switch.
fn check_unprivileged_user_namespaces() -> Option<String> {
    is_set_to("/proc/sys/kernel/unprivileged_userns_clone", "0").then(|| {
        "user namespaces are for root only here; allow them with `sysctl \
         kernel.unprivileged_userns_clone=1`, or start the server as root"
            .to_owned()
    })
}

fn check_cgroups() -> Option<String> {
    match Cgroups::detect() {
        Ok(cgroups) => cgroups
            .unusable()
            .map(|why| format!("control groups cannot be used: {why}; mount cgroup2 at /sys/fs/cgroup")),
        Err(error) => Some(format!("control groups cannot be looked at: {error}")),
    }
}

/// What a failure to make a sandbox without root most often comes from.
fn likely_cause(launcher: Launcher) -> &'static str {
    let restricted = is_set_to("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1");
    match launcher {
        Launcher::Unprivileged if restricted => {
            " (AppArmor takes the powers of user namespaces away from ordinary accounts: `sysctl \
             kernel.apparmor_restrict_unprivileged_userns=0`, an AppArmor profile with `userns`, or start \
             the server as root)"
        }
        Launcher::Unprivileged => {
            " (without root a sandbox needs user namespaces, and a /proc that nothing is mounted over; in a \
             container, start that with --security-opt seccomp=unconfined --security-opt \
             systempaths=unconfined, or start the server as root)"
        }
        Launcher::Root => "",
    }
}

fn is_set_to(switch: &str, value: &str) -> bool {
    fs::read_to_string(switch).is_ok_and(|text| text.trim() == value)
}
