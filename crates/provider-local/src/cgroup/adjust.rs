//! Limits of a group that is in use.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Cgroups, Controller, SANDBOX, Swap, at};

impl Cgroups {
    /// Sets the processor quota of a sandbox's processes, in microseconds per period.
    pub(crate) fn set_cpu(&self, group: &str, quota: u64, period: u64) -> io::Result<()> {
        let Some(folder) = self.folder(Controller::Cpu, group) else { return Ok(()) };
        match self {
            Self::V2(_) => write(&folder, "cpu.max", &format!("{quota} {period}")),
            Self::V1(_) | Self::None => write(&folder, "cpu.cfs_quota_us", &quota.to_string()),
        }
    }

    /// Sets how much memory a sandbox's processes may have, swap included. With one hierarchy per controller a
    /// limit that is too small for what they have is refused; with one for all, some of them are ended.
    pub(crate) fn set_memory(&self, group: &str, bytes: u64) -> io::Result<()> {
        let Some(folder) = self.folder(Controller::Memory, group) else { return Ok(()) };
        let bytes = bytes.to_string();
        match self {
            // That of swap is zero, whatever the memory's is.
            Self::V2(_) => write(&folder, "memory.max", &bytes),
            Self::V1(_) | Self::None if self.swap() == Swap::CountedWithMemory => {
                let [memory, with_swap] = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"];
                // The one with swap is never the smaller of the two, so which comes first depends on whether it
                // grows. The kernel refuses the wrong order.
                match write(&folder, with_swap, &bytes) {
                    Ok(()) => write(&folder, memory, &bytes),
                    Err(_) => {
                        write(&folder, memory, &bytes)?;
                        write(&folder, with_swap, &bytes)
                    }
                }
            }
            Self::V1(_) | Self::None => write(&folder, "memory.limit_in_bytes", &bytes),
        }
    }

    /// Sets how many processes and threads a sandbox may have.
    pub(crate) fn set_pids(&self, group: &str, most: i64) -> io::Result<()> {
        let Some(folder) = self.folder(Controller::Pids, group) else { return Ok(()) };
        write(&folder, "pids.max", &most.to_string())
    }

    /// Where the limit of a sandbox's processes is; `None` where nothing is limited by this controller.
    fn folder(&self, controller: Controller, group: &str) -> Option<PathBuf> {
        let root = match self {
            _ if !self.has(controller) => return None,
            Self::V1(v1) => v1.hierarchy(controller.as_str())?,
            Self::V2(v2) => v2.root(),
            Self::None => return None,
        };
        Some(root.join(group).join(SANDBOX))
    }
}

fn write(folder: &Path, name: &str, value: &str) -> io::Result<()> {
    let path = folder.join(name);
    fs::write(&path, value).map_err(|error| at(&path, error))
}

#[cfg(test)]
mod tests {
    use super::super::V2;
    use super::*;

    #[test]
    fn every_limit_has_its_file() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cgroup.controllers"), "cpu memory").unwrap();
        let folder = root.path().join("some/group").join(SANDBOX);
        fs::create_dir_all(&folder).unwrap();
        let groups = Cgroups::V2(V2::new(root.path().to_owned()));
        groups.set_cpu("some/group", 150_000, 100_000).unwrap();
        groups.set_memory("some/group", 1 << 28).unwrap();
        assert_eq!(fs::read_to_string(folder.join("cpu.max")).unwrap(), "150000 100000");
        assert_eq!(fs::read_to_string(folder.join("memory.max")).unwrap(), "268435456");
        // What the host does not limit is not looked for.
        groups.set_pids("some/group", 512).unwrap();
        assert!(!folder.join("pids.max").exists());
        assert!(groups.set_cpu("another", 1, 1).unwrap_err().to_string().contains("cpu.max"));
    }
}
