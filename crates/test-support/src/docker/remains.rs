//! What a daemon leaves on the host's disk and in its control groups, and how it is removed.
//!
//! Folder and control groups carry one name, and the name carries the number of the test's
//! process: whoever finds them later knows whether that test still runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const PREFIX: &str = "emergent-docker-";

const CGROUPS: &str = "/sys/fs/cgroup";

/// How long the kernel may take to empty the groups of processes that are gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// A folder for one daemon, known to belong to this process.
pub(super) fn new_folder() -> TempDir {
    let prefix = format!("{PREFIX}{}-", std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir().expect("a temporary folder can be made")
}

/// The control group below which a daemon with this folder puts its containers.
pub(super) fn control_group(folder: &Path) -> String {
    folder.file_name().expect("it has a name").to_string_lossy().into_owned()
}

/// Removes folder and control groups of a daemon whose processes are gone.
pub(super) fn remove(folder: PathBuf) {
    let group = control_group(&folder);
    let deadline = Instant::now() + PATIENCE;
    for hierarchy in hierarchies() {
        while let Err(error) = remove_group(&hierarchy.join(&group)) {
            if Instant::now() > deadline {
                eprintln!("left behind: {}: {error}", hierarchy.join(&group).display());
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    // The mounts of sandboxes that were killed with their server, and the folder's own.
    unmount_below(&folder);
    // Places of disks cannot be changed while nothing is mounted there.
    let mutable = std::process::Command::new("chattr").args(["-R", "-f", "-i"]).arg(&folder).status();
    if let Err(error) = mutable.and_then(|_| fs::remove_dir_all(&folder)) {
        eprintln!("left behind: {}: {error}", folder.display());
    }
}

/// The last mounted first. What cannot be unmounted is reported when the folder is removed.
fn unmount_below(folder: &Path) {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let below: Vec<&str> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .filter(|point| Path::new(point).starts_with(folder))
        .collect();
    for point in below.into_iter().rev() {
        let _ = rustix::mount::unmount(point, rustix::mount::UnmountFlags::DETACH);
    }
}

/// Removes what tests have left that were killed before they could.
pub(super) fn remove_those_of_dead_tests() {
    for folder in entries(&std::env::temp_dir()) {
        if owner(&folder).is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            remove(folder);
        }
    }
}

/// The process whose test made this folder.
fn owner(folder: &Path) -> Option<u32> {
    let (pid, _) = folder.file_name()?.to_str()?.strip_prefix(PREFIX)?.split_once('-')?;
    pid.parse().ok()
}

/// Version 2, and each controller of version 1.
fn hierarchies() -> Vec<PathBuf> {
    let mut all = entries(Path::new(CGROUPS));
    all.push(CGROUPS.into());
    all
}

/// A control group is removed from its leaves up; its files vanish with it.
fn remove_group(group: &Path) -> io::Result<()> {
    for child in entries(group).into_iter().filter(|child| child.is_dir()) {
        remove_group(&child)?;
    }
    match fs::remove_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_knows_its_test() {
        let check = |name: &str, expect: Option<u32>| assert_eq!(owner(Path::new(name)), expect, "{name}");
        check("/tmp/emergent-docker-4711-Ab3", Some(4711));
        check("/tmp/emergent-docker-4711", None);
        check("/tmp/emergent-docker--x", None);
        check("/tmp/other-4711-x", None);
        let folder = new_folder();
        assert_eq!(owner(folder.path()), Some(std::process::id()));
    }
}
