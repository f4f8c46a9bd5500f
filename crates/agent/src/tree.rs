//! Finding and signalling processes through /proc.
//!
//! Children lists (`/proc/…/children`) are not built into every kernel and not known to
//! gVisor; every kernel has `stat` with the parent in it, so all of /proc is scanned. A scan
//! of a sandbox takes well under a millisecond; callers run it off the runtime's thread all
//! the same, because a fork bomb makes it longer.

use std::collections::{HashMap, HashSet};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// `PF_KTHREAD` of the kernel's `sched.h`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// A process, as a scan saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) pid: Pid,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) is_dead: bool,
    /// Each of them counts against the limit on processes.
    pub(crate) threads: u64,
    /// Memory that it has mapped and touched.
    pub(crate) resident_pages: u64,
}

/// Everything below `root` that is alive; `root` is not part of it.
pub(crate) fn descendants(root: Pid) -> Vec<Pid> {
    below(root, &scan())
}

/// The children of a process that are alive.
pub(crate) fn children(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_pid();
    scan().into_iter().filter(|seen| !seen.is_dead && seen.parent == parent).map(|seen| seen.pid).collect()
}

/// Every process that can be seen and is alive, except this one.
pub(crate) fn everyone() -> Vec<Pid> {
    let this = rustix::process::getpid();
    scan().into_iter().filter(|seen| !seen.is_dead && seen.pid != this).map(|seen| seen.pid).collect()
}

/// Whether a process has not ended yet.
pub(crate) fn is_alive(pid: Pid) -> bool {
    let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_pid()));
    stat.ok().and_then(|stat| parse_stat(pid, &stat)).is_some_and(|seen| !seen.is_dead)
}

/// Signals each; returns to how many it was delivered. One that ended since it was seen is
/// not counted. Its number cannot have been given to another process in between unless the
/// whole range of numbers was used up within the microseconds since the scan.
pub(crate) fn signal_all(pids: &[Pid], signal: Signal) -> u32 {
    let delivered = pids.iter().filter(|pid| kill_process(**pid, signal).is_ok()).count();
    u32::try_from(delivered).unwrap_or(u32::MAX)
}

/// Kills everything that `targets` finds, even while it forks: what is found is stopped, and
/// only when a look around finds nobody who still runs is everyone killed. Stopped processes
/// still count against the sandbox's process limit, so a fork bomb that has reached it finds
/// no room while this goes on. Returns how many were killed.
///
/// `group` is a process group of theirs that is stopped first, at one stroke: most bombs are in one,
/// and while they run, a look around takes seconds where processes are slow to be looked at.
pub(crate) fn kill_forking(group: Option<Pid>, targets: impl Fn() -> Vec<Pid>) -> u32 {
    /// A bomb doubles at most about once per scan; after this many it is at any limit.
    const ROUNDS: usize = 32;

    if let Some(group) = group {
        // There may be nobody left in it.
        let _ = kill_process_group(group, Signal::STOP);
    }
    let mut stopped = HashSet::new();
    for _ in 0..ROUNDS {
        let fresh: Vec<Pid> = targets().into_iter().filter(|pid| stopped.insert(*pid)).collect();
        if fresh.is_empty() {
            break;
        }
        signal_all(&fresh, Signal::STOP);
    }
    // Those that ended meanwhile are not found again, so their numbers are left alone.
    signal_all(&targets(), Signal::KILL)
}

fn below(root: Pid, seen: &[Seen]) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<&Seen>> = HashMap::new();
    for process in seen {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut open = vec![root.as_raw_pid()];
    while let Some(parent) = open.pop() {
        // Removed, not looked up: a scan is no snapshot, and a reused number could close a loop.
        for child in children.remove(&parent).unwrap_or_default() {
            open.push(child.pid.as_raw_pid());
            if !child.is_dead {
                found.push(child.pid);
            }
        }
    }
    found
}

/// Every process that can be seen, this one and the dead included.
pub(crate) fn scan() -> Vec<Seen> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let pid: i32 = name.to_str()?.parse().ok()?;
            let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
            parse_stat(Pid::from_raw(pid)?, &stat)
        })
        .collect()
}

/// `pid (name) state parent group session terminal foreground flags …`; the name may contain
/// anything, parentheses included. Its threads are the 20th field; what is resident is the 24th, in pages.
fn parse_stat(pid: Pid, stat: &[u8]) -> Option<Seen> {
    let after_name = memchr::memrchr(b')', stat)? + 1;
    let rest = std::str::from_utf8(stat.get(after_name..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let flags: u64 = fields.nth(3)?.parse().ok()?;
    let threads = fields.nth(10).and_then(|threads| threads.parse().ok()).unwrap_or(1);
    // Its first thread may end before the others.
    let is_dead = has_ended && threads <= 1;
    let resident_pages = fields.nth(3).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    // In a virtual machine the kernel's own threads are in the list too.
    (flags & KERNEL_THREAD == 0).then_some(Seen { pid, parent, group, is_dead, threads, resident_pages })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).expect("positive")
    }

    #[test]
    fn names_may_contain_anything() {
        let check = |stat: &str, expect: Option<(i32, bool)>| {
            let seen = parse_stat(pid(9), stat.as_bytes());
            assert_eq!(seen.map(|seen| (seen.parent, seen.is_dead)), expect, "{stat}");
        };
        check("9 (bash) S 7 9 9 0 -1 4194304 1", Some((7, false)));
        check("9 (a) R 1 (b) c) Z 7 9 9 0 -1 4194304 1", Some((7, true)));
        let first_thread_ended = "9 (a) Z 7 1 1 0 0 0 0 0 0 0 0 0 0 0 20 0 3 0 88 12513280 959 0 0";
        check(first_thread_ended, Some((7, false)));
        check("9 (kthreadd) S 0 0 0 0 -1 2129984 1", None);
        let gvisor =
            "9 (python3) R 7 1 1 0 0 0 0 0 0 0 0 0 0 0 20 0 3 0 88 12513280 959 18446744073709551615 0 0";
        let seen = parse_stat(pid(9), gvisor.as_bytes()).map(|seen| (seen.threads, seen.resident_pages));
        assert_eq!(seen, Some((3, 959)));
        check("9 (bash", None);
        check("9 (bash) S", None);
    }

    #[test]
    fn the_dead_are_passed_through_and_not_counted() {
        let seen = |number, parent, is_dead| Seen {
            pid: pid(number),
            parent,
            group: 0,
            is_dead,
            threads: 1,
            resident_pages: 0,
        };
        let all =
            [seen(2, 1, false), seen(3, 2, true), seen(4, 3, false), seen(5, 1, false), seen(6, 6, false)];
        let mut found = below(pid(2), &all);
        found.sort_by_key(|pid| pid.as_raw_pid());
        assert_eq!(found, [pid(4)]);
        let mut found = below(pid(1), &all);
        found.sort_by_key(|pid| pid.as_raw_pid());
        assert_eq!(found, [pid(2), pid(4), pid(5)]);
        assert_eq!(below(pid(6), &all), [pid(6)], "a loop ends");
    }

    #[test]
    fn a_child_is_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("starts");
        let child_pid = Pid::from_child(&child);
        assert!(descendants(rustix::process::getpid()).contains(&child_pid));
        assert!(everyone().contains(&child_pid));
        child.kill().expect("is ours");
        child.wait().expect("is ours");
        assert!(!descendants(rustix::process::getpid()).contains(&child_pid));
    }
}
