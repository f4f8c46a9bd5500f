//! What workspaces may have left on the host.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::memory::processes_in_group;

/// Makes sure that nothing is left in or of a data folder.
pub(crate) fn check(data_dir: &Path) -> Result<()> {
    let left = left_of(data_dir, &[]);
    ensure!(left.is_empty(), "left behind: {}", left.join(", "));
    Ok(())
}

/// What is left of these workspaces: state folders, mounts and loop devices are found by the
/// data folder, processes and control groups by the workspaces' ids.
pub(crate) fn left_of(data_dir: &Path, ids: &[String]) -> Vec<String> {
    let processes = ids.iter().flat_map(|id| processes_in_group(id)).map(|pid| format!("process {pid}"));
    let groups = control_groups().into_iter().filter(|path| {
        let name = path.file_name().unwrap_or_default();
        ids.iter().any(|id| name == id.as_str())
    });
    let groups = groups.map(|path| format!("control group {}", path.display()));
    [state_folders(data_dir), mounts(data_dir), loop_devices(data_dir)]
        .into_iter()
        .flatten()
        .chain(processes)
        .chain(groups)
        .collect()
}

fn state_folders(data_dir: &Path) -> Vec<String> {
    entries(&data_dir.join("local"))
        .into_iter()
        .filter(|path| path.file_name().is_some_and(|name| name != "templates"))
        .map(|path| format!("state folder {}", path.display()))
        .collect()
}

fn mounts(data_dir: &Path) -> Vec<String> {
    let place = data_dir.to_string_lossy();
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter(|line| line.contains(&*place)).map(|line| format!("mount {line}")).collect()
}

fn loop_devices(data_dir: &Path) -> Vec<String> {
    entries(Path::new("/sys/block"))
        .into_iter()
        .filter(|device| {
            let backing = fs::read_to_string(device.join("loop/backing_file")).unwrap_or_default();
            Path::new(backing.trim()).starts_with(data_dir)
        })
        .map(|device| format!("loop device {}", device.display()))
        .collect()
}

/// All groups of ours and those directly below, in every hierarchy.
fn control_groups() -> Vec<PathBuf> {
    let root = PathBuf::from("/sys/fs/cgroup");
    // One hierarchy at the root, or one in each folder below it.
    let hierarchies = entries(&root).into_iter().chain([root]);
    let ours = hierarchies
        .flat_map(|hierarchy| entries(&hierarchy))
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("emergent-")));
    ours.flat_map(|group| entries(&group)).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path()).collect()
}
