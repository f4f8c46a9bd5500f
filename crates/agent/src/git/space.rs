//! Whether git failed because the disk is full. It has many ways to say so, and some of its
//! messages leave the reason out: then the disk is asked.

use std::path::Path;

use rustix::fs::statvfs;

/// What the C library and git itself say about a full disk or a used-up quota.
const SAID: [&str; 3] = ["No space left on device", "Disk quota exceeded", "Out of diskspace"];

/// How git says that it could not write something, whatever the reason.
const NOT_WRITTEN: [&str; 6] = [
    "unable to write",
    "couldn't write",
    "could not write",
    "failed to write",
    "write error",
    "disk is not full",
];

/// A disk with less than this is full: some of it is left when a file no longer fits.
const LITTLE: u64 = 1 << 20;

/// Whether this complaint, made in a folder, is about a full disk.
pub(super) fn is_missing(complaint: &str, folder: &Path) -> bool {
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| complaint.contains(phrase));
    has(&SAID) || (has(&NOT_WRITTEN) && is_full(folder))
}

/// The files that could not be written, as git names them.
pub(super) fn unwritten(complaint: &str) -> Vec<String> {
    let names = complaint.lines().filter_map(|line| line.strip_prefix("error: unable to write file "));
    names.map(str::to_owned).collect()
}

fn is_full(folder: &Path) -> bool {
    statvfs(folder).is_ok_and(|disk| {
        // A file system that does not count has none of either.
        let is_little = |free: u64, all: u64, little: u64| all > 0 && free < little;
        is_little(disk.f_bavail.saturating_mul(disk.f_frsize), disk.f_blocks, LITTLE)
            || is_little(disk.f_favail, disk.f_files, 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_believed_and_what_is_not_is_asked() {
        let check = |complaint: &str, expect: bool| {
            assert_eq!(is_missing(complaint, Path::new("/")), expect, "{complaint}");
        };
        check("fatal: Unable to create '/x/.git/index.lock': No space left on device", true);
        check("fatal: sha1 file '/x/.git/index.lock' write error. Out of diskspace", true);
        check("error: file write error: Disk quota exceeded", true);
        check("fatal: not a git repository", false);
        // The disk of these tests has room.
        check("fatal: cannot update ref 'refs/heads/x': couldn't write '/x/.git/refs/heads/x.lock'", false);
    }

    #[test]
    fn files_that_were_not_written() {
        assert_eq!(unwritten("warning: x\nerror: unable to write file a b\nfatal: y\n"), ["a b"]);
    }
}
