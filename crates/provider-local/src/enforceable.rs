//! Whether a request can be kept to here. Decided before anything is made. What its network
//! needs is asked in `network/`.

use emergent_host_disk::MIN_BYTES;
use emergent_provider::{NamedDemands, ProviderError, SandboxSpec};
use emergent_types::{ByteSize, Enforcement, ResourceLimits};

use crate::cgroup::Controller;
use crate::means::{DiskKind, Launcher, Means};
use crate::provider::KIND;

const MIN_MEMORY: ByteSize = ResourceLimits::LEAST_MEMORY;

/// Above this some host file systems cannot hold one file.
const MAX_DISK: ByteSize = ByteSize::from_gib(8 << 10);

/// Refuses what cannot be enforced, naming the field.
pub(crate) fn check(spec: &SandboxSpec) -> Result<(), ProviderError> {
    let refuse = |what, reason: String| Err(ProviderError::NotEnforceable { provider: KIND, what, reason });
    if spec.base_image.is_some() {
        let reason = "the local provider uses the host's own system and cannot take an image".to_owned();
        return refuse("base_image", reason);
    }
    if !spec.volumes.is_empty() {
        let reason = "the local provider has no volumes with names".to_owned();
        return refuse("volumes", reason);
    }
    if spec.limits.memory < MIN_MEMORY {
        return refuse("memory", format!("{} is below the least of {MIN_MEMORY}", spec.limits.memory));
    }
    let min_disk = ByteSize::from_bytes(MIN_BYTES);
    if spec.limits.disk < min_disk {
        return refuse("disk", format!("{} is below the least of {min_disk}", spec.limits.disk));
    }
    if spec.limits.disk > MAX_DISK {
        let reason = format!("{} is above the greatest of {MAX_DISK}", spec.limits.disk);
        return refuse("disk", reason);
    }
    Ok(())
}

/// Refuses what a request named and this host cannot keep to.
pub(crate) fn check_limits(means: &Means, named: NamedDemands, disk: DiskKind) -> Result<(), ProviderError> {
    let limits = means.limits();
    let refuse = |what, reason| Err(ProviderError::NotEnforceable { provider: KIND, what, reason });
    if named.cpu && limits.cpu == Enforcement::NotEnforced {
        return refuse("cpu", means.why_no_group(Controller::Cpu));
    }
    if named.memory && limits.memory == Enforcement::NotEnforced {
        return refuse("memory", means.why_no_group(Controller::Memory));
    }
    // What is only watched can be overrun.
    if named.disk && disk == DiskKind::Folder {
        return refuse("disk", means.why_folder());
    }
    Ok(())
}

/// What the user must know about limits that are only defaults: each that is not kept to.
pub(crate) fn dropped(means: &Means, disk: DiskKind) -> Vec<String> {
    let limits = means.limits();
    let mut warnings = Vec::new();
    for (limit, controller, what) in [
        (limits.cpu, Controller::Cpu, "processor time (cpu)"),
        (limits.memory, Controller::Memory, "memory"),
        (limits.pids, Controller::Pids, "the number of processes (pids)"),
    ] {
        if limit == Enforcement::NotEnforced {
            warnings.push(format!("{what} is not limited: {}", means.why_no_group(controller)));
        }
    }
    if disk == DiskKind::Folder {
        warnings.push(format!(
            "disk usage is watched and not limited by the file system: {}; beyond the limit tools write \
             nothing more, but programs can",
            means.why_folder()
        ));
    }
    if means.launcher == Launcher::Unprivileged {
        warnings.push("root is the only account in the sandbox: the server does not run as root".to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Cgroups;
    use emergent_agent_client::AgentKey;
    use emergent_types::{NetworkMode, WorkspaceId};

    #[test]
    fn what_cannot_be_enforced_is_named() {
        let id = WorkspaceId::generate();
        let good = SandboxSpec {
            id,
            limits: ResourceLimits::WORKSPACE_DEFAULT,
            network: NetworkMode::Isolated,
            base_image: None,
            named: NamedDemands::default(),
            volumes: Vec::new(),
            agent_key: AgentKey::derive(b"secret", id),
        };
        assert!(check(&good).is_ok());

        let refused = |spec: SandboxSpec, field: &str| match check(&spec) {
            Err(ProviderError::NotEnforceable { what, .. }) => assert_eq!(what, field),
            other => panic!("{field}: {other:?}"),
        };
        refused(SandboxSpec { base_image: Some("debian".to_owned()), ..good.clone() }, "base_image");
        let limits = ResourceLimits { memory: ByteSize::from_mib(31), ..good.limits };
        refused(SandboxSpec { limits, ..good.clone() }, "memory");
        let limits = ResourceLimits { disk: ByteSize::from_mib(15), ..good.limits };
        refused(SandboxSpec { limits, ..good.clone() }, "disk");
        let limits = ResourceLimits { disk: ByteSize::from_gib(64 << 10), ..good.limits };
        refused(SandboxSpec { limits, ..good }, "disk");
    }

    /// A host with root and these controllers.
    fn with_root(controllers: &[&str], disk: DiskKind) -> Means {
        let line = |name: &&str| format!("1 1 0:1 / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n");
        let mounts: String = controllers.iter().map(line).collect();
        Means { launcher: Launcher::Root, disk, cgroups: Cgroups::from_mountinfo(&mounts) }
    }

    #[test]
    fn what_is_named_is_refused_and_what_is_default_is_dropped() {
        let everything = ["cpu", "memory", "pids", "devices"];
        let without_root =
            Means { launcher: Launcher::Unprivileged, disk: DiskKind::Folder, cgroups: Cgroups::None };
        let named = |field: &str| NamedDemands {
            cpu: field == "cpu",
            memory: field == "memory",
            disk: field == "disk",
            network: field == "network",
        };
        // The host, and which of its limits are not kept to.
        for (means, lost) in [
            (with_root(&everything, DiskKind::Image), vec![]),
            (with_root(&everything, DiskKind::Folder), vec!["disk"]),
            (with_root(&["memory", "pids", "devices"], DiskKind::Image), vec!["cpu"]),
            (with_root(&["cpu", "pids", "devices"], DiskKind::Image), vec!["memory"]),
            (with_root(&["cpu", "memory", "devices"], DiskKind::Image), vec!["pids"]),
            (without_root, vec!["cpu", "memory", "disk"]),
        ] {
            for field in ["cpu", "memory", "disk", "network", "nothing"] {
                let refused = match check_limits(&means, named(field), means.disk) {
                    Ok(()) => None,
                    Err(ProviderError::NotEnforceable { what, reason, .. }) => {
                        assert!(!reason.is_empty());
                        Some(what)
                    }
                    Err(other) => panic!("{other}"),
                };
                assert_eq!(refused, lost.iter().copied().find(|lost| *lost == field), "{field} on {means:?}");
            }
            let warnings = dropped(&means, means.disk);
            for field in ["cpu", "memory", "pids", "disk"] {
                let warned =
                    warnings.iter().any(|warning| warning.contains(field) && warning.contains("not limited"));
                assert_eq!(warned, lost.contains(&field), "{field} on {means:?}: {warnings:?}");
            }
        }
    }
}
