//! Programs of the host.

use std::path::{Path, PathBuf};

use super::finding::Finding;
use super::kernel::NO_DISK_LIMIT;

/// Where administrators' programs are, whatever `PATH` says.
const FOLDERS: [&str; 5] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"];

pub(super) fn find(program: &str) -> Option<PathBuf> {
    FOLDERS.iter().map(|folder| Path::new(folder).join(program)).find(|path| path.is_file())
}

pub(super) fn mkfs() -> Finding {
    match find("mkfs.ext4") {
        Some(path) => Finding::ok("mkfs.ext4", path.display().to_string()),
        None => {
            Finding::warning("mkfs.ext4", "not installed", NO_DISK_LIMIT, "install the package e2fsprogs")
        }
    }
}

/// Local sandboxes see the host's own system folders.
pub(super) fn shell() -> Finding {
    let programs = ["bash", "git", "python3"];
    let missing: Vec<&str> = programs.into_iter().filter(|program| find(program).is_none()).collect();
    if missing.is_empty() {
        return Finding::ok("programs", programs.join(", "));
    }
    Finding::warning(
        "programs",
        format!("not installed: {}", missing.join(", ")),
        "local workspaces have the programs of this machine, so they lack these too",
        "install the packages of the same names",
    )
}
