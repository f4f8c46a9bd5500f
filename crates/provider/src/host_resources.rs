//! What the host of this process has left for sandboxes.

use std::fs;
use std::path::Path;

use emergent_types::{ByteSize, FreeResources};
use rustix::fs::statvfs;

/// What can be had on this host now, with sandboxes whose disks are in this folder. It need not be there yet:
/// its file system is that of a folder above.
pub fn free_on_this_host(disks: &Path) -> FreeResources {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(1));
    let meminfo = fs::read_to_string("/proc/meminfo").ok();
    let disk = disks.ancestors().find_map(|folder| statvfs(folder).ok());
    FreeResources {
        cpus,
        memory: meminfo.as_deref().and_then(available_memory).map(ByteSize::from_bytes),
        disk: disk.map(|disk| ByteSize::from_bytes(disk.f_bavail.saturating_mul(disk.f_frsize))),
    }
}

/// In bytes.
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

    #[test]
    fn a_folder_that_is_not_there_yet_has_the_disk_above_it() {
        let free = free_on_this_host(Path::new("/not/there/yet"));
        assert!(free.cpus > 0 && free.memory.is_some_and(|memory| memory.bytes() > 0), "{free:?}");
        assert_eq!(free.disk.is_some(), statvfs("/").is_ok());
    }
}
