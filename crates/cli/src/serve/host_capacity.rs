//! What this host has for workspaces.

use std::path::Path;

use emergent_workspaces::HostCapacity;

/// As far as it can be found out. The disk is the one that the data folder is on.
pub(super) fn of_this_host(folder: &Path) -> HostCapacity {
    let memory = std::fs::read_to_string("/proc/meminfo").ok();
    let disk = rustix::fs::statvfs(folder).ok();
    HostCapacity {
        cpus: std::thread::available_parallelism().ok().map(|count| usize::from(count) as f64),
        memory_bytes: memory.as_deref().and_then(total_memory),
        disk_bytes: disk.map(|disk| disk.f_blocks.saturating_mul(disk.f_frsize)),
    }
}

fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_something() {
        let host = of_this_host(Path::new("/"));
        assert!(host.cpus.unwrap() >= 1.0, "{host:?}");
        assert!(host.memory_bytes.unwrap() > 64 << 20, "{host:?}");
        assert!(host.disk_bytes.is_some(), "{host:?}");
    }
}
