//! How often the OOM killer struck. The kernel counts its kills per cgroup, not per process; where
//! init does the killing, it counts in the same words. Whose they were is found out in the module
//! `victim`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The line of a count of kills.
pub(crate) const KILLS: &str = "oom_kill";

/// The counter, opened once: it is read around every command.
pub(crate) struct OomCounter {
    source: Option<Source>,
}

struct Source {
    file: Arc<File>,
    is_sandbox_own: bool,
    /// How much memory there may be, where that is known.
    limit: Option<u64>,
}

impl Default for OomCounter {
    /// The best counter this process can read.
    fn default() -> Self {
        let cgroups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = counter_files(&cgroups).into_iter().find_map(|path| open(&path, true));
        Self { source: own.or_else(|| open(Path::new("/proc/vmstat"), false)) }
    }
}

impl OomCounter {
    /// Init's own count, in a sandbox whose kernel leaves the killing to it.
    pub(crate) fn of_init(kills: Arc<File>, memory_limit: Option<u64>) -> Self {
        Self { source: Some(Source { file: kills, is_sandbox_own: true, limit: memory_limit }) }
    }

    /// The count now, where there is one.
    pub(crate) fn read(&self) -> Option<u64> {
        self.source.as_ref().and_then(Source::count)
    }

    /// Whether only kills in this sandbox are counted.
    pub(super) fn is_sandbox_own(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.is_sandbox_own)
    }

    /// How much memory the sandbox may have, where that is known.
    pub(super) fn memory_limit(&self) -> Option<u64> {
        self.source.as_ref().and_then(|source| source.limit)
    }
}

impl Source {
    fn count(&self) -> Option<u64> {
        // vmstat is the longest of the files.
        let mut buffer = vec![0; 16 << 10];
        let mut length = 0;
        while length < buffer.len() {
            match self.file.read_at(buffer.get_mut(length..)?, length as u64) {
                Ok(0) | Err(_) => return None,
                Ok(read) => length += read,
            }
            let text = std::str::from_utf8(buffer.get(..length)?).ok()?;
            // The last line may be a part of one.
            if let Some(count) = text.rfind('\n').and_then(|end| count_in(text.get(..end)?)) {
                return Some(count);
            }
        }
        None
    }
}

fn open(path: &Path, is_sandbox_own: bool) -> Option<Source> {
    let limit = ["memory.max", "memory.limit_in_bytes"].into_iter().find_map(|name| {
        // Without a limit there is a word there, or a number that no machine has.
        let text = std::fs::read_to_string(path.with_file_name(name)).ok()?;
        text.trim().parse().ok().filter(|limit: &u64| *limit < 1 << 60)
    });
    let source = Source { file: Arc::new(File::open(path).ok()?), is_sandbox_own, limit };
    source.count().is_some().then_some(source)
}

/// `name number`, one per line.
fn count_in(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(KILLS)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Where the counter of this process's cgroup may be: under the path the kernel names, and,
/// inside a container whose cgroup is mounted as the root, right at the top.
fn counter_files(cgroups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in cgroups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let path = path.trim_start_matches('/');
        let (mounts, name): (&[&str], &str) = if controllers.is_empty() {
            (&["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], "memory.events")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            (&["/sys/fs/cgroup/memory"], "memory.oom_control")
        } else {
            continue;
        };
        for mount in mounts {
            files.push(Path::new(mount).join(path).join(name));
            files.push(Path::new(mount).join(name));
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_by_their_whole_name() {
        let check = |text: &str, expect: Option<u64>| assert_eq!(count_in(text), expect, "{text}");
        check("low 0\nhigh 0\noom 3\noom_kill 2\noom_group_kill 9\n", Some(2));
        check("oom_kill_disable 1\nunder_oom 0\noom_kill 4\n", Some(4));
        check("oom_kill_disable 1\n", None);
        check("", None);
    }

    #[test]
    fn both_kinds_of_cgroups_are_known() {
        let check = |cgroups: &str, expect: &[&str]| {
            let files: Vec<_> =
                counter_files(cgroups).iter().map(|path| path.display().to_string()).collect();
            assert_eq!(files, expect);
        };
        check(
            "4:memory:/sandbox/a\n3:cpu,cpuacct:/\n",
            &[
                "/sys/fs/cgroup/memory/sandbox/a/memory.oom_control",
                "/sys/fs/cgroup/memory/memory.oom_control",
            ],
        );
        check(
            "0::/\n",
            &[
                "/sys/fs/cgroup/memory.events",
                "/sys/fs/cgroup/memory.events",
                "/sys/fs/cgroup/unified/memory.events",
                "/sys/fs/cgroup/unified/memory.events",
            ],
        );
        check("garbage\n", &[]);
    }
}
