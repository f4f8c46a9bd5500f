//! A cgroup for a test, of either version.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Removed when dropped; what is in it must have ended by then.
pub(crate) struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    /// At most so much memory, and no swap.
    pub(crate) fn with_memory(bytes: u64) -> Self {
        let cgroup = Self::new("memory");
        if cgroup.is_version_1() {
            cgroup.set("memory.limit_in_bytes", bytes);
            // Not every kernel counts swap.
            let _ = fs::write(cgroup.folder.join("memory.memsw.limit_in_bytes"), bytes.to_string());
        } else {
            cgroup.set("memory.max", bytes);
            let _ = fs::write(cgroup.folder.join("memory.swap.max"), "0");
        }
        cgroup
    }

    /// At most so many processes.
    pub(crate) fn with_processes(number: u64) -> Self {
        let cgroup = Self::new("pids");
        cgroup.limit_processes(number);
        cgroup
    }

    /// From now on at most so many processes; those that are there stay.
    pub(crate) fn limit_processes(&self, number: u64) {
        self.set("pids.max", number);
    }

    /// Where a process writes itself to.
    pub(crate) fn members(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    fn new(controller: &str) -> Self {
        let root = Path::new("/sys/fs/cgroup");
        let version_1 = root.join(controller);
        let parent = if version_1.exists() { version_1.as_path() } else { root };
        let folder = parent.join(format!("emergent-agent-test-{}", std::process::id()));
        fs::create_dir(&folder).expect("a cgroup; run the tests as root");
        Self { folder }
    }

    fn is_version_1(&self) -> bool {
        self.folder.parent() != Some(Path::new("/sys/fs/cgroup"))
    }

    fn set(&self, file: &str, value: u64) {
        fs::write(self.folder.join(file), value.to_string()).expect("the controller is there");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("{} could not be removed", self.folder.display());
    }
}
