//! The control group of a sandbox. runsc makes and fills it; this removes it, and says what only the group
//! knows.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use emergent_types::{InstallationId, WorkspaceId};

use super::processes;

const HIERARCHIES: &str = "/sys/fs/cgroup";

/// How long the kernel may take to empty the groups of processes that are gone.
const EMPTY_LIMIT: Duration = Duration::from_secs(5);

/// What all groups of an installation's sandboxes begin with.
fn prefix(installation: InstallationId) -> String {
    format!("emergent-{}-gvisor-", installation.short())
}

/// The group of a workspace. One level: runsc leaves those above alone.
pub(super) fn name(installation: InstallationId, id: WorkspaceId) -> String {
    format!("{}{id}", prefix(installation))
}

/// The workspaces that have a group.
pub(super) fn ids(installation: InstallationId) -> Vec<WorkspaceId> {
    let prefix = prefix(installation);
    let groups = hierarchies().into_iter().flat_map(|hierarchy| folders(&hierarchy));
    groups.filter_map(|group| group.file_name()?.to_str()?.strip_prefix(&prefix)?.parse().ok()).collect()
}

/// Ends what is left in a group and removes it, in every hierarchy; none is success.
pub(super) fn remove(name: &str) -> io::Result<()> {
    let deadline = Instant::now() + EMPTY_LIMIT;
    for group in groups(name) {
        while let Err(error) = remove_with_children(&group) {
            // The processes in which gVisor runs what is inside end with its own, a moment later.
            for pid in members(&group) {
                processes::kill(pid, || members(&group).contains(&pid))?;
            }
            if Instant::now() > deadline {
                return Err(io::Error::new(error.kind(), format!("{}: {error}", group.display())));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}

/// Whether the kernel has ended a process of it for want of memory.
pub(super) fn ran_out_of_memory(name: &str) -> bool {
    groups(name).iter().any(|group| {
        ["memory.oom_control", "memory.events"]
            .iter()
            .filter_map(|file| fs::read_to_string(group.join(file)).ok())
            .any(|text| oom_kills(&text) > 0)
    })
}

/// The groups of that name in all hierarchies; none where no process is in any of them.
pub(super) fn populated(name: &str) -> Vec<PathBuf> {
    let groups = groups(name);
    if groups.iter().any(|group| !members(group).is_empty()) { groups } else { Vec::new() }
}

/// Whether memory and swap can be limited together.
pub(super) fn counts_swap() -> bool {
    let v1 = Path::new(HIERARCHIES).join("memory");
    match v1.is_dir() {
        true => v1.join("memory.memsw.limit_in_bytes").exists(),
        // The root group has no such file to look at; a kernel without swap has no list of it.
        false => Path::new("/proc/swaps").exists(),
    }
}

fn members(group: &Path) -> Vec<i32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn oom_kills(text: &str) -> u64 {
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

fn groups(name: &str) -> Vec<PathBuf> {
    hierarchies().into_iter().map(|hierarchy| hierarchy.join(name)).filter(|group| group.is_dir()).collect()
}

/// Version 2, and each controller of version 1.
fn hierarchies() -> Vec<PathBuf> {
    let root = PathBuf::from(HIERARCHIES);
    match root.join("cgroup.controllers").exists() {
        true => vec![root],
        // The same folder under two names is no harm.
        false => folders(&root),
    }
}

/// From its leaves up; its files vanish with it.
fn remove_with_children(group: &Path) -> io::Result<()> {
    for child in folders(group) {
        remove_with_children(&child)?;
    }
    match fs::remove_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_counted_in_both_versions() {
        assert_eq!(oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"), 2);
        assert_eq!(oom_kills("low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\n"), 1);
        assert_eq!(oom_kills("oom_kill_disable 1\n"), 0);
    }
}
