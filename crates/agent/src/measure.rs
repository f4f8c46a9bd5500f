//! Counts what is below some folders, for a control plane that cannot look at them itself.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long counting may take.
const LIMIT: Duration = Duration::from_secs(60);

/// So many folders may wait to be looked at, and so many files of several names be remembered.
const MAX_REMEMBERED: usize = 1 << 20;

/// What was counted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// Bytes that are taken on disk.
    pub bytes: u64,
    /// Files, folders and links.
    pub files: u64,
    /// Not everything could be counted.
    pub uncounted: bool,
}

/// Counts everything below these folders, on their own file systems, and follows no link.
pub fn measure(folders: &[PathBuf]) -> Measured {
    let deadline = Instant::now() + LIMIT;
    let mut measured = Measured::default();
    let mut several_names = HashSet::new();
    for folder in folders {
        let Ok(top) = fs::symlink_metadata(folder) else { continue };
        let mut waiting = vec![folder.clone()];
        while let Some(next) = waiting.pop() {
            if Instant::now() > deadline || waiting.len() > MAX_REMEMBERED {
                measured.uncounted = true;
                break;
            }
            let Ok(entries) = fs::read_dir(&next) else {
                measured.uncounted = true;
                continue;
            };
            for entry in entries.filter_map(Result::ok) {
                // Gone since it was listed.
                let Ok(found) = entry.metadata() else { continue };
                if found.dev() != top.dev() {
                    continue;
                }
                let remembered = several_names.len() < MAX_REMEMBERED;
                if found.nlink() > 1 && !found.is_dir() && remembered && !several_names.insert(found.ino()) {
                    continue;
                }
                measured.bytes = measured.bytes.saturating_add(found.blocks().saturating_mul(512));
                measured.files += 1;
                if found.is_dir() {
                    waiting.push(entry.path());
                }
            }
        }
    }
    measured
}

/// Bytes written to the root since the sandbox was started. gVisor lays a file system without a limit over the
/// image and counts what is in it. `None` where the root's numbers are those of the host's disk.
pub fn written_to_root() -> Option<u64> {
    let root = rustix::fs::statvfs("/").ok()?;
    let has_no_limit = root.f_blocks == i64::MAX.unsigned_abs().checked_div(root.f_bsize)?;
    has_no_limit.then(|| root.f_blocks.saturating_sub(root.f_bfree).saturating_mul(root.f_bsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_counted_and_not_followed() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("folder")).unwrap();
        fs::write(root.path().join("folder/file"), vec![1; 100_000]).unwrap();
        fs::hard_link(root.path().join("folder/file"), root.path().join("second-name")).unwrap();
        std::os::unix::fs::symlink("/usr", root.path().join("away")).unwrap();
        let measured = measure(&[root.path().to_owned(), "/nonexistent".into()]);
        assert_eq!((measured.files, measured.uncounted), (3, false));
        assert!((100_000..200_000).contains(&measured.bytes), "{measured:?}");
    }
}
