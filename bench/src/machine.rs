//! What the figures were measured on.

use std::path::Path;
use std::process::Command;
use std::{fmt, fs};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// One of the things without which a figure means nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fact {
    name: String,
    value: String,
}

impl Fact {
    pub(crate) fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.value)
    }
}

/// What is true of the machine while something is measured.
pub(crate) struct Machine {
    facts: Vec<Fact>,
    processors: ProcessorTime,
}

impl Machine {
    /// Looks at this machine and at the file system that disks will be put on; `commit` is what the server was
    /// built from.
    pub(crate) fn observe(work_dir: &Path, commit: &str) -> Result<Self> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
        let meminfo = fs::read_to_string("/proc/meminfo")?;
        let mountinfo = fs::read_to_string("/proc/self/mountinfo")?;
        let kernel = rustix::system::uname();
        let virtualised =
            field(&cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|f| f == "hypervisor"));
        let kib: u64 = field(&meminfo, "MemTotal")
            .and_then(|text| text.strip_suffix(" kB")?.parse().ok())
            .context("/proc/meminfo does not say how much memory there is")?;
        let facts = [
            ("date", OffsetDateTime::now_utc().replace_nanosecond(0)?.format(&Rfc3339)?),
            ("CPU", field(&cpuinfo, "model name").unwrap_or("unknown").to_owned()),
            ("cores", std::thread::available_parallelism()?.to_string()),
            ("virtual machine", if virtualised { "yes" } else { "no" }.to_owned()),
            ("memory", format!("{:.1} GiB", kib as f64 / f64::from(1 << 20))),
            ("load average before the run", load()?),
            (
                "kernel",
                format!("{} {}", kernel.sysname().to_string_lossy(), kernel.release().to_string_lossy()),
            ),
            ("control groups", control_groups(&mountinfo).to_owned()),
            (
                "file system",
                file_system(&mountinfo, &work_dir.canonicalize()?).context("no file system found")?,
            ),
            ("commit", commit.to_owned()),
            ("compiler", output_of("rustc", &["--version"])?),
        ];
        let facts = facts.into_iter().map(|(name, value)| Fact::new(name, value)).collect();
        Ok(Self { facts, processors: ProcessorTime::now()? })
    }

    /// All facts, with what can only be told afterwards.
    pub(crate) fn into_facts(mut self) -> Result<Vec<Fact>> {
        let share = ProcessorTime::now()?.stolen_since(&self.processors);
        let taken = "processor time taken by other virtual machines during the run";
        self.facts.push(Fact::new(taken, format!("{share:.0} %")));
        Ok(self.facts)
    }
}

/// Processor time since the machine was started, in the kernel's ticks.
struct ProcessorTime {
    total: u64,
    stolen: u64,
}

impl ProcessorTime {
    fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat")?;
        Self::parse(&text).context("/proc/stat is not understood")
    }

    /// From a line such as `cpu  user nice system idle iowait irq softirq steal guest guest_nice`.
    /// The last two are part of the first two.
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> =
            line.split_ascii_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Self { total: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }

    /// In percent of all the time there was.
    fn stolen_since(&self, before: &Self) -> f64 {
        let total = self.total.saturating_sub(before.total).max(1);
        100.0 * self.stolen.saturating_sub(before.stolen) as f64 / total as f64
    }
}

/// A value of a file like `/proc/cpuinfo`, where it occurs first.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, v)| v.trim())
}

/// Processes that wanted to run in the last minute, on average.
fn load() -> Result<String> {
    let text = fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').next().unwrap_or_default().to_owned())
}

/// One line of `/proc/self/mountinfo`: mount point, file system type, source.
fn mount(line: &str) -> Option<(&str, &str, &str)> {
    let (before, after) = line.split_once(" - ")?;
    let point = before.split(' ').nth(4)?;
    let mut after = after.split(' ');
    Some((point, after.next()?, after.next()?))
}

fn control_groups(mountinfo: &str) -> &'static str {
    let mounts: Vec<_> = mountinfo.lines().filter_map(mount).collect();
    let unified = mounts.iter().any(|(point, kind, _)| *kind == "cgroup2" && *point == "/sys/fs/cgroup");
    let legacy = mounts.iter().any(|(_, kind, _)| *kind == "cgroup");
    match (unified, legacy) {
        (true, _) => "v2",
        (false, true) => "v1",
        (false, false) => "none",
    }
}

/// The file system a folder is on: that of the longest mount point above it.
fn file_system(mountinfo: &str, folder: &Path) -> Option<String> {
    let (_, kind, source) = mountinfo
        .lines()
        .filter_map(mount)
        .filter(|(point, ..)| folder.starts_with(point))
        .max_by_key(|(point, ..)| point.len())?;
    Some(format!("{kind} on {source}"))
}

/// What the source is now.
pub(crate) fn commit() -> Result<String> {
    let Ok(commit) = output_of("git", &["rev-parse", "--short=12", "HEAD"]) else {
        return Ok("none yet".to_owned());
    };
    // The page and what it is made of are what a run changes.
    let sources = [":/", ":(exclude,top)bench/RESULTS.md", ":(exclude,top)bench/results"];
    let changes = output_of("git", &[&["status", "--porcelain", "--"][..], &sources[..]].concat())?;
    Ok(if changes.is_empty() { commit } else { format!("{commit} with local changes") })
}

fn output_of(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .with_context(|| format!("{program} cannot be started"))?;
    anyhow::ensure!(output.status.success(), "{program} {}: {}", arguments.join(" "), output.status);
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        20 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
        21 20 0:20 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
        22 21 0:21 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
        23 21 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        24 20 0:23 / /var/tmp rw - xfs /dev/vdb rw\n";

    #[test]
    fn the_nearest_mount_is_the_file_system() {
        let check = |folder, expect: &str| {
            assert_eq!(file_system(MOUNTS, Path::new(folder)).as_deref(), Some(expect));
        };
        check("/var/tmp/x", "xfs on /dev/vdb");
        check("/var/tmpfs", "ext4 on /dev/vda");
    }

    #[test]
    fn stolen_time_is_a_share_of_all_time() {
        let at = |text| ProcessorTime::parse(text).unwrap();
        let before = at("cpu  10 0 10 80 0 0 0 0 5 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
        let after = at("cpu  60 0 60 90 0 0 0 90 5 0\n");
        assert_eq!(after.stolen_since(&before), 45.0);
        assert!(ProcessorTime::parse("cpu  1 2 3\n").is_none());
    }

    #[test]
    fn hybrid_groups_are_version_1() {
        assert_eq!(control_groups(MOUNTS), "v1");
        assert_eq!(control_groups("1 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"), "v2");
        assert_eq!(control_groups(""), "none");
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        assert_eq!(
            field("model\t\t: 1\nmodel name\t: Some CPU @ 2: GHz\n", "model name"),
            Some("Some CPU @ 2: GHz")
        );
        assert_eq!(field("a: b", "c"), None);
    }
}
