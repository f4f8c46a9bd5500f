//! The data folder, or where it would be.

use std::path::{Path, PathBuf};

use emergent_types::ByteSize;
use rustix::fs::{Access, CWD, StatVfsMountFlags, access, accessat, statvfs};

use super::finding::Finding;

const NAME: &str = "data folder";

/// With less than this, a few workspaces fill the disk.
const ENOUGH: ByteSize = ByteSize::from_gib(5);

pub(super) fn check(data_dir: &Path) -> Finding {
    let Some(existing) = nearest_existing(data_dir) else {
        return unusable(data_dir, "there is no folder above it");
    };
    if !existing.is_dir() {
        return unusable(data_dir, &format!("{} is not a folder", existing.display()));
    }
    if access(&existing, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        return unusable(data_dir, &format!("{} cannot be written to", existing.display()));
    }
    match statvfs(&existing) {
        Ok(space) if space.f_flag.contains(StatVfsMountFlags::RDONLY) => {
            unusable(data_dir, "its file system is read-only")
        }
        // What the kernel makes up, such as /proc.
        Ok(space) if space.f_blocks == 0 => unusable(data_dir, "its file system keeps no files"),
        Ok(space) => with_space(data_dir, space.f_bavail.saturating_mul(space.f_frsize)),
        Err(error) => unusable(data_dir, &error.to_string()),
    }
}

fn with_space(data_dir: &Path, free: u64) -> Finding {
    let whole_mib = ByteSize::from_mib(free >> 20);
    let found = format!("{}, {whole_mib} free", data_dir.display());
    if free >= ENOUGH.bytes() {
        return Finding::ok(NAME, found);
    }
    Finding::warning(
        NAME,
        found,
        "workspaces share this space; when it is used up, none can write any more",
        "make room, or name another folder with --data-dir",
    )
}

fn unusable(data_dir: &Path, reason: &str) -> Finding {
    Finding::missing(
        NAME,
        format!("{}: {reason}", data_dir.display()),
        "the server cannot start",
        "name another one with --data-dir, or run this as another user",
    )
}

/// The folder itself, or the one it would be made in.
fn nearest_existing(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    absolute
        .ancestors()
        .find(|ancestor| accessat(CWD, *ancestor, Access::EXISTS, rustix::fs::AtFlags::empty()).is_ok())
        .map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_yet_is_judged_by_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        assert_ne!(check(&folder.path().join("a/b")).level, Level::Missing);
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(check(&file.join("below")).level, Level::Missing);
        assert_eq!(check(Path::new("/proc/emergent")).level, Level::Missing);
    }

    #[test]
    fn little_space_is_a_warning() {
        assert_eq!(with_space(Path::new("/x"), 1 << 30).level, Level::Warning);
        assert_eq!(with_space(Path::new("/x"), 6 << 30).level, Level::Ok);
    }
}
