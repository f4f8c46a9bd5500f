//! What processes use, one by one, where no group of theirs is counted as a whole.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// Beyond so many, nothing is told: looking at them all would cost more than it says.
const MAX_PROCESSES: usize = 4096;

/// Beyond so many, memory is not told: each is a walk over its page tables.
const MAX_WEIGHED: usize = 256;

/// Some processes.
pub(super) struct Table {
    processes: Vec<Process>,
}

struct Process {
    pid: i32,
    ticks: u64,
}

impl Table {
    /// These, as far as they are still there; `None` where there are too many.
    pub(super) fn of(pids: &[i32]) -> Option<Self> {
        let look = |pid: &i32| Some(Process { pid: *pid, ticks: ticks(*pid)? });
        (pids.len() <= MAX_PROCESSES).then(|| Self { processes: pids.iter().filter_map(look).collect() })
    }

    /// One and everything below it. Whatever is started in a PID namespace is below its first process:
    /// who loses its parent becomes that one's child. `None` where the kernel does not tell of children.
    pub(super) fn below(first: i32) -> Option<Self> {
        if !Path::new("/proc/thread-self/children").exists() {
            return None;
        }
        let mut found = vec![first];
        let mut next = 0;
        while let Some(pid) = found.get(next).copied() {
            found.extend(children(pid));
            next += 1;
            if found.len() > MAX_PROCESSES {
                return None;
            }
        }
        Self::of(&found)
    }

    pub(super) fn len(&self) -> u64 {
        self.processes.len() as u64
    }

    /// Their processor time, with that of the children they have waited for.
    pub(super) fn cpu_time(&self) -> Duration {
        let ticks: u64 = self.processes.iter().map(|process| process.ticks).sum();
        Duration::from_millis(ticks.saturating_mul(1000) / ticks_per_second())
    }

    /// Their memory, of which each has its share where several have the same; `None` where it cannot be
    /// told of all.
    pub(super) fn memory_bytes(&self) -> Option<u64> {
        if self.processes.len() > MAX_WEIGHED {
            return None;
        }
        let mut kib = 0_u64;
        for process in &self.processes {
            match fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid)) {
                Ok(text) => kib = kib.saturating_add(share(&text).unwrap_or(0)),
                // One that has just ended has no memory any more, and then no such file either.
                Err(_) if ticks(process.pid).is_none() => {}
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(_) => return None,
            }
        }
        Some(kib << 10)
    }
}

/// The children of every thread of a process.
fn children(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    threads
        .filter_map(Result::ok)
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|text| text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn ticks(pid: i32) -> Option<u64> {
    parse_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Fields 14 to 17 of the line: its own time and its children's, each in user and in system mode. The second
/// field may hold anything, so fields are counted from the last parenthesis.
fn parse_ticks(stat: &str) -> Option<u64> {
    let fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let times: Vec<u64> = fields.skip(11).take(4).filter_map(|field| field.parse().ok()).collect();
    (times.len() == 4).then(|| times.iter().sum())
}

/// The unit of these times, which the kernel tells every program at its start.
fn ticks_per_second() -> u64 {
    const AT_CLKTCK: u64 = 17;
    const USUAL: u64 = 100;
    let auxiliary = fs::read("/proc/self/auxv").unwrap_or_default();
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
    let mut pairs = auxiliary.chunks_exact(16).map(|pair| (word(&pair[..8]), word(&pair[8..])));
    pairs.find(|(key, value)| *key == AT_CLKTCK && *value > 0).map_or(USUAL, |(_, value)| value)
}

/// Its proportional share, in KiB.
fn share(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_program_name_moves_no_field() {
        let line = "77 (a) Z 1 (b) R 1 2 3 4 5 6 7 8 9 10 100 200 300 400 15 16 17 18 4242 20";
        assert_eq!(parse_ticks(line), Some(1000));
        assert_eq!(parse_ticks("77 (x) R 1"), None);
        assert_eq!(parse_ticks(""), None);
    }

    #[test]
    fn the_kernel_tells_its_unit() {
        assert_eq!(ticks_per_second(), 100, "on every architecture that this runs on");
    }

    #[test]
    fn what_this_process_uses_is_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let table = Table::below(std::process::id() as i32).unwrap();
        assert!(table.processes.iter().any(|process| process.pid == child.id() as i32));
        assert!(table.memory_bytes().unwrap() > 1 << 20);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
