//! Files in `/dev`, which is memory. gVisor gives it no size, whatever its container says: what is
//! written there takes from all, and no process is the larger for it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use crate::quiesce::Looks;
use crate::tree;

const FOLDER: &str = "/dev";

/// As much as Docker gives it elsewhere.
const MOST_BYTES: u64 = 64 << 20;

/// So much of the memory at most.
const PART_OF_LIMIT: u64 = 8;

/// So many folders below it are looked into.
const MOST_FOLDERS: usize = 4096;

/// Whether there is more in `/dev` than belongs there.
pub(super) fn are_too_large(limit: u64) -> bool {
    let Ok(found) = rustix::fs::statvfs(FOLDER) else { return false };
    let used = found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize);
    used > MOST_BYTES.min(limit / PART_OF_LIMIT)
}

/// The processes that have a file there open, but for ours.
pub(super) fn writers() -> Vec<Pid> {
    let Some(device) = device() else { return Vec::new() };
    let own = Looks::of(rustix::process::getpid());
    let is_writer = |pid: &Pid| {
        let open = entries(&Path::new("/proc").join(pid.as_raw_pid().to_string()).join("fd"));
        open.iter().any(|file| fs::metadata(file).is_ok_and(|found| found.is_file() && found.dev() == device))
    };
    tree::everyone().into_iter().filter(is_writer).filter(|pid| !Looks::of(*pid).is_like(&own)).collect()
}

/// Removes every file there: only devices belong there, and what is mounted below is its own matter.
pub(super) fn clear() {
    let Some(device) = device() else { return };
    let mut folders = vec![PathBuf::from(FOLDER)];
    for _ in 0..MOST_FOLDERS {
        let Some(folder) = folders.pop() else { return };
        for entry in entries(&folder) {
            match fs::symlink_metadata(&entry) {
                Ok(found) if found.dev() != device => {}
                Ok(found) if found.is_file() => drop(fs::remove_file(&entry)),
                Ok(found) if found.is_dir() => folders.push(entry),
                _ => {}
            }
        }
    }
}

/// `None` where it is the root's own file system: then a disk is its limit.
fn device() -> Option<u64> {
    let device = fs::metadata(FOLDER).ok()?.dev();
    (fs::metadata("/").ok()?.dev() != device).then_some(device)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
}
