//! What the processes of a group use, as the kernel counts it for the group as a whole: who has ended is
//! counted as well, and what several processes share is counted once.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::{Cgroups, Controller, SANDBOX, pids_below};

impl Cgroups {
    /// Processor time of everything in a group, now and before; `None` where nothing counts it.
    pub(crate) fn cpu_time(&self, group: &str) -> Option<Duration> {
        if !self.has(Controller::Cpu) {
            return None;
        }
        // A hierarchy without controllers counts processor time all the same, and where there is one
        // hierarchy per controller it may be the only one in which every process of a sandbox is.
        self.roots().into_iter().find_map(|root| {
            let folder = root.join(group);
            let accounted = number(&folder.join("cpuacct.usage")).filter(|time| *time > 0);
            let unified = || field(&folder.join("cpu.stat"), "usage_usec");
            accounted
                .map(Duration::from_nanos)
                .or_else(|| unified().filter(|time| *time > 0).map(Duration::from_micros))
        })
    }

    /// Memory of everything in a group, but for files that were only read or written and can be dropped.
    pub(crate) fn memory_bytes(&self, group: &str) -> Option<u64> {
        if !self.has(Controller::Memory) {
            return None;
        }
        self.roots().into_iter().find_map(|root| {
            let folder = root.join(group).join(SANDBOX);
            let stat = folder.join("memory.stat");
            let (used, droppable) = match number(&folder.join("memory.current")) {
                Some(used) => (used, field(&stat, "inactive_file")),
                None => (
                    number(&folder.join("memory.usage_in_bytes"))?,
                    field(&stat, "total_inactive_file").or_else(|| field(&stat, "inactive_file")),
                ),
            };
            Some(used.saturating_sub(droppable.unwrap_or(0)))
        })
    }

    /// Every process in a group; `None` where there are no groups.
    pub(crate) fn processes(&self, group: &str) -> Option<Vec<i32>> {
        pids_below(&self.roster()?.join(group)).ok()
    }
}

/// A file with a number in it.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// A line of a file of names and numbers.
fn field(path: &Path, name: &str) -> Option<u64> {
    find_field(&fs::read_to_string(path).ok()?, name)
}

fn find_field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "inactive_file_x 1\ntotal_inactive_file 2\ninactive_file 3\nbroken x\n";
        assert_eq!(find_field(text, "inactive_file"), Some(3));
        assert_eq!(find_field(text, "total_inactive_file"), Some(2));
        assert_eq!(find_field(text, "broken"), None);
        assert_eq!(find_field(text, "absent"), None);
    }
}
