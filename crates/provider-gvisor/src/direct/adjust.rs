//! Changing the limits of a sandbox while it runs: processor time, by its control group. Memory and the number of
//! processes are limited by init, which is told once.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use emergent_provider::{Operation, ProviderError, SandboxSpec};
use emergent_types::{AdjustableLimits, Cpu};

use super::bundle::CPU_PERIOD;
use super::control_group;
use super::host::Host;

/// What can be changed.
pub(super) const ADJUSTABLE: AdjustableLimits = AdjustableLimits { cpu: true, ..AdjustableLimits::NONE };

impl Host {
    /// See [`WorkspaceProvider::adjust`](emergent_provider::WorkspaceProvider::adjust).
    pub(super) async fn adjust(&self, spec: &SandboxSpec) -> Result<(), ProviderError> {
        let (id, group, cpu) = (spec.id, self.group(spec.id), spec.limits.cpu);
        let adjusted = self
            .blocking(Operation::Adjust, id, "processor", move || {
                let groups = control_group::populated(&group);
                if groups.is_empty() {
                    return Ok(false);
                }
                set_cpu(&groups, cpu).map(|()| true)
            })
            .await?;
        match adjusted {
            true => Ok(()),
            false if self.layout.sandbox(id).exists() => Err(self.not_running(id)),
            false => Err(self.not_found(id)),
        }
    }
}

/// Whichever of the groups limits processor time has a file for it.
fn set_cpu(groups: &[PathBuf], cpu: Cpu) -> io::Result<()> {
    let quota = u64::from(cpu.millis()) * CPU_PERIOD / 1000;
    let mut is_set = false;
    for (name, value) in
        [("cpu.max", format!("{quota} {CPU_PERIOD}")), ("cpu.cfs_quota_us", quota.to_string())]
    {
        let has_file = |group: &&PathBuf| group.join(name).exists();
        for group in groups.iter().filter(has_file) {
            write(&group.join(name), &value)?;
            is_set = true;
        }
    }
    if is_set { Ok(()) } else { Err(io::Error::other("its control group does not limit processor time")) }
}

fn write(file: &Path, value: &str) -> io::Result<()> {
    fs::write(file, value)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_set_where_it_is_limited() {
        let folder = tempfile::tempdir().unwrap();
        let groups = ["cpu", "memory", "unified"].map(|name| folder.path().join(name));
        for group in &groups {
            fs::create_dir(group).unwrap();
        }
        assert!(set_cpu(&groups, Cpu::from_millis(250)).is_err(), "nothing limits it");
        fs::write(groups[0].join("cpu.cfs_quota_us"), "-1").unwrap();
        fs::write(groups[2].join("cpu.max"), "max 100000").unwrap();
        set_cpu(&groups, Cpu::from_millis(250)).unwrap();
        assert_eq!(fs::read_to_string(groups[0].join("cpu.cfs_quota_us")).unwrap(), "25000");
        assert_eq!(fs::read_to_string(groups[2].join("cpu.max")).unwrap(), "25000 100000");
        assert!(!groups[1].join("cpu.max").exists());
    }
}
