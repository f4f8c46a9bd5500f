//! Memory of processes, as the kernel counts it.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// What a process holds in memory now: its resident set.
pub(crate) fn resident(pid: u32) -> Result<u64> {
    field(pid, "VmRSS")
}

/// The most a process has held since [`forget_peak`], to the page: the kernel keeps it, so no
/// moment is missed between two looks.
pub(crate) fn peak(pid: u32) -> Result<u64> {
    field(pid, "VmHWM")
}

/// Begins a new peak.
pub(crate) fn forget_peak(pid: u32) -> Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").with_context(|| format!("peak of process {pid}"))
}

/// A process whose memory is watched.
pub(crate) struct Watched {
    pid: u32,
    before: u64,
}

impl Watched {
    pub(crate) fn begin(pid: u32) -> Result<Self> {
        forget_peak(pid)?;
        Ok(Self { pid, before: resident(pid)? })
    }

    /// How much more it has held than at the beginning.
    pub(crate) fn growth(&self) -> Result<u64> {
        Ok(peak(self.pid)?.saturating_sub(self.before))
    }
}

/// The processes on the host that make up one container: those of its control group, and those that
/// were started with its id (the engine's shim, gVisor's kernel and file server).
pub(crate) fn processes_of_container(id: &str) -> Vec<u32> {
    let mut found = processes_in_group(id);
    found.extend(all_processes().filter(|pid| arguments(*pid).iter().any(|word| word.contains(id))));
    found.sort_unstable();
    found.dedup();
    found
}

/// What processes hold together, each shared page counted once: the sum of their proportional sets.
/// Those that end meanwhile hold nothing.
pub(crate) fn held_together(pids: &[u32]) -> u64 {
    let held = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        parse_field(&text, "Pss")
    };
    pids.iter().filter_map(held).sum()
}

/// Processor time that processes have taken since they began.
pub(crate) fn processor_time(pids: &[u32]) -> Duration {
    let ticks = |pid: &u32| -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name, which comes second, may have spaces in it.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
    };
    let ticks: u64 = pids.iter().filter_map(ticks).sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn field(pid: u32, name: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} is not there any more"))?;
    parse_field(&text, name).with_context(|| format!("/proc/{pid}/status has no {name}"))
}

fn parse_field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// The two processes of ours in a sandbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AgentProcesses {
    pub(crate) init: u32,
    pub(crate) agent: u32,
}

impl AgentProcesses {
    /// Finds them by their control group, which is named after the workspace.
    pub(crate) fn of_workspace(id: &str) -> Result<Self> {
        let with_word = |word: &str| {
            processes_in_group(id)
                .into_iter()
                .find(|pid| arguments(*pid).get(1).is_some_and(|argument| argument == word))
                .with_context(|| format!("workspace {id} has no process `emergent-agent {word}`"))
        };
        Ok(Self { init: with_word("init")?, agent: with_word("serve")? })
    }
}

/// Processes that run in a control group whose path contains `part`. One that has ended has no
/// arguments any more, though it is listed until the host's init has collected it.
fn processes_in_group(part: &str) -> Vec<u32> {
    all_processes()
        .filter(|pid| fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(part)))
        .filter(|pid| !arguments(*pid).is_empty())
        .collect()
}

fn all_processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn arguments(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes.strip_suffix(b"\0").into_iter().flat_map(|words| words.split(|byte| *byte == 0));
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(parse_field(status, "VmRSS"), Some(1 << 20));
        assert_eq!(parse_field(status, "VmHWM"), Some(2 << 20));
        assert_eq!(parse_field(status, "Vm"), None);
    }

    #[test]
    fn a_peak_is_not_missed() {
        let own = std::process::id();
        forget_peak(own).unwrap();
        let before = resident(own).unwrap();
        drop(std::hint::black_box(vec![1u8; 64 << 20]));
        assert!(peak(own).unwrap() >= before + (60 << 20));
    }
}
