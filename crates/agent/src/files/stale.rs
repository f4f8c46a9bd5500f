//! Temporary files of agents that were killed.
//!
//! Where a file system has no unnamed files, a killed agent leaves what it was writing. The
//! first write into a folder removes what is certainly such: it has the name and the owner of
//! one, is older than this agent, and nobody has it locked.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, openat, statat, unlinkat,
};

use super::temporary::own_temporary;

/// Folders that are remembered to have been looked through.
const REMEMBERED: usize = 4096;

/// Entries that are looked at in one folder.
const LOOKED_AT: usize = 50_000;

/// When this agent began to write.
static BEGUN: LazyLock<i64> = LazyLock::new(|| {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(0)
});

static LOOKED_THROUGH: LazyLock<Mutex<HashSet<(u64, u64)>>> = LazyLock::new(Mutex::default);

/// Removes what is left in a folder, unless that was done already.
pub(super) fn sweep_once(folder: &OwnedFd) {
    let begun = *BEGUN;
    let Ok(stat) = fstat(folder) else { return };
    let mut known = LOOKED_THROUGH.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= REMEMBERED {
        known.clear();
    }
    let is_new = known.insert((stat.st_dev, stat.st_ino));
    drop(known);
    if is_new {
        sweep(folder, begun);
    }
}

/// Removes what is left of before a time, in Unix seconds. What cannot be removed stays.
fn sweep(folder: &OwnedFd, before: i64) {
    let Ok(entries) = Dir::read_from(folder) else { return };
    for entry in entries.take(LOOKED_AT).map_while(Result::ok) {
        let name = entry.file_name();
        if own_temporary(std::os::unix::ffi::OsStrExt::from_bytes(name.to_bytes())).is_none() {
            continue;
        }
        let Ok(seen) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if !may_be_left(&seen, before) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let Ok(file) = openat(folder, name, flags, Mode::empty()) else { continue };
        // Still the same, and nobody writes it.
        if fstat(&file).is_ok_and(|opened| opened.st_ino == seen.st_ino && may_be_left(&opened, before))
            && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            let _ = unlinkat(folder, name, AtFlags::empty());
        }
    }
}

fn may_be_left(stat: &Stat, before: i64) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && stat.st_nlink == 1
        && stat.st_ctime < before
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_what_is_certainly_left_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str| fs::File::create(root.path().join(name)).unwrap();
        for name in
            [".emergent-1-1.tmp", ".emergent-1-2.new.tmp", ".emergent-1-3.tmp", "file", ".emergent-x.tmp"]
        {
            write(name);
        }
        let written = write(".emergent-1-4.tmp");
        flock(&written, FlockOperation::NonBlockingLockExclusive).unwrap();
        fs::hard_link(root.path().join(".emergent-1-3.tmp"), root.path().join("other")).unwrap();
        std::os::unix::fs::symlink("file", root.path().join(".emergent-1-5.tmp")).unwrap();
        fs::create_dir(root.path().join(".emergent-1-6.tmp")).unwrap();
        let names = || {
            let names = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name());
            names.map(|name| name.into_string().unwrap()).collect::<std::collections::BTreeSet<_>>()
        };
        let folder =
            rustix::fs::open(root.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let all = names();
        sweep(&folder, 1);
        assert_eq!(names(), all, "they are younger");
        sweep(&folder, i64::MAX);
        let gone: Vec<_> = all.difference(&names()).cloned().collect();
        assert_eq!(gone, [".emergent-1-1.tmp", ".emergent-1-2.new.tmp"]);
        drop(written);
        sweep(&folder, i64::MAX);
        assert!(!names().contains(".emergent-1-4.tmp"));
    }
}
