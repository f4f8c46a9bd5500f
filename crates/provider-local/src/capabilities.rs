//! What this provider can do here and now.

use std::fs;

use emergent_types::{
    ByteSize, Capabilities, DiskEnforcement, Enforcement, FreeResources, IsolationLevel, LimitEnforcement,
    NetworkMode, Persistence,
};
use rustix::fs::statvfs;

use crate::provider::Host;

pub(crate) fn of(host: &Host, networks: Vec<NetworkMode>) -> Capabilities {
    Capabilities {
        isolation: IsolationLevel::Container,
        persistence: Some(Persistence::Full),
        suspend: false,
        snapshots: false,
        warm_pool: true,
        networks,
        base_image: false,
        limits: host.means().map_or(NOTHING, |means| means.limits()),
        platform_needs: vec!["linux".to_owned()],
        startup_ms: host.startup.summary(),
        free: free(host),
    }
}

/// Where nothing is known, nothing is promised.
const NOTHING: LimitEnforcement = LimitEnforcement {
    cpu: Enforcement::NotEnforced,
    memory: Enforcement::NotEnforced,
    pids: Enforcement::NotEnforced,
    disk: DiskEnforcement::Monitored,
};

fn free(host: &Host) -> Option<FreeResources> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    // The data folder may not be there yet; its file system is that of a folder above.
    let disk = host.layout.data_dir().ancestors().find_map(|folder| statvfs(folder).ok())?;
    Some(FreeResources {
        cpus: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        memory: ByteSize::from_bytes(available_memory(&meminfo)?),
        disk: ByteSize::from_bytes(disk.f_bavail * disk.f_frsize),
    })
}

fn available_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(available_memory("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(available_memory("MemTotal: 9 kB\n"), None);
    }
}
