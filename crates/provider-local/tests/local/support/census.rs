//! Everything an installation could leave on a host, counted.

use std::fs;
use std::path::Path;

use emergent_types::InstallationId;

/// What is there: processes, mounts, control groups, loop devices, state folders.
pub(crate) fn census(installation: InstallationId, data_dir: &Path) -> Vec<String> {
    let group = format!("emergent-{}", installation.short());
    let folder = data_dir.display().to_string();
    let mut found = Vec::new();

    for pid in processes() {
        let cmdline = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let cmdline = String::from_utf8_lossy(&cmdline).replace('\0', " ");
        let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let zombie = fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')));
        if (cmdline.contains(&installation.to_string()) || cgroup.contains(&group)) && !zombie {
            found.push(format!("process {pid}: {cmdline}"));
        }
        // In any mount namespace: the tests' own data folder is not a mount.
        found.extend(
            mounts
                .lines()
                .filter(|line| line.contains(&folder))
                .map(|line| format!("mount seen by {pid}: {line}")),
        );
    }
    for hierarchy in fs::read_dir("/sys/fs/cgroup").unwrap().flatten().map(|entry| entry.path()) {
        for root in [hierarchy.clone(), "/sys/fs/cgroup".into()] {
            if root.join(&group).exists() {
                found.push(format!("control group {}", root.join(&group).display()));
            }
        }
    }
    for device in fs::read_dir("/sys/block").unwrap().flatten() {
        let backing = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        if backing.contains(&folder) {
            found.push(format!("loop device {}: {}", device.file_name().display(), backing.trim()));
        }
    }
    for entry in fs::read_dir(data_dir.join("local")).into_iter().flatten().flatten() {
        if entry.file_name() == "snapshots" {
            let copies = fs::read_dir(entry.path()).into_iter().flatten().flatten();
            found.extend(copies.map(|copy| format!("snapshot {}", copy.path().display())));
        } else if entry.file_name() != "templates" {
            found.push(format!("state folder {}", entry.path().display()));
        }
    }
    found
}

fn processes() -> Vec<i32> {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}
