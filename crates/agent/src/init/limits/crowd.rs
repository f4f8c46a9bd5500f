//! Too many processes.
//!
//! Commands have a limit per account, which a bomb reaches first. It is passed by those who make a
//! user namespace of their own, and by those who are many accounts; they are ended as a whole.

#![expect(unsafe_code, reason = "a signal to everybody has no safe form")]

use std::collections::{HashMap, HashSet};

use rustix::process::Pid;

use crate::quiesce::Looks;
use crate::tree::{self, Seen};

use super::memory::Use;

/// Whether there are so many that somebody has got around the limit.
pub(super) fn is_too_large(processes: u64, limit: u64) -> bool {
    processes > limit + limit / 4
}

/// Whether a sandbox is about to be full: nobody has the time then to be polite.
pub(crate) fn is_near(limit: u64) -> bool {
    Use::now().processes >= limit - limit / 4
}

/// Ends the largest tree: all that one command started, or all that init has inherited. Everybody
/// stands still meanwhile: while a bomb grows, looking at what there is takes seconds, and then it is
/// something else. Whoever stood still before goes on with the others.
///
/// The kernel's count has the dead in it until somebody has reaped them, so it may call for this when the
/// bomb is over already. Then whoever is left is innocent, and nobody is ended. Returns whether somebody was.
pub(super) fn disperse(limit: u64) -> bool {
    signal_everyone(libc::SIGSTOP);
    let seen = tree::scan();
    let is_crowd = is_too_large(living(&seen), limit);
    if is_crowd {
        end_largest(&seen);
    }
    signal_everyone(libc::SIGCONT);
    is_crowd
}

/// Threads of processes that have not ended.
fn living(seen: &[Seen]) -> u64 {
    seen.iter().filter(|process| !process.is_dead).map(|process| process.threads).sum()
}

/// All but init, at one stroke.
fn signal_everyone(signal: libc::c_int) {
    // Only PID 1 of a sandbox has limits to look after; for any other process everybody may be
    // anybody's.
    if rustix::process::getpid().is_init() {
        // SAFETY: sends a signal, and touches no memory.
        unsafe { libc::kill(-1, signal) };
    }
}

fn end_largest(seen: &[Seen]) {
    let own = Looks::of(rustix::process::getpid());
    // Once: there are many, and to look at each takes longer than they take to become more.
    let ours: HashSet<Pid> =
        seen.iter().map(|process| process.pid).filter(|pid| Looks::of(*pid).is_like(&own)).collect();
    if let Some(root) = largest(seen, &ours) {
        let group = common_group(seen, &members(seen, root, &ours), &ours);
        tree::kill_forking(group, || members(&tree::scan(), root, &ours));
    }
}

/// The process group that most of them are in, unless one of ours is in it too.
fn common_group(seen: &[Seen], members: &[Pid], ours: &HashSet<Pid>) -> Option<Pid> {
    let members: HashSet<&Pid> = members.iter().collect();
    let mut sizes: HashMap<i32, usize> = HashMap::new();
    for process in seen.iter().filter(|process| members.contains(&process.pid)) {
        *sizes.entry(process.group).or_default() += 1;
    }
    let has_ours =
        |group: i32| seen.iter().any(|process| process.group == group && ours.contains(&process.pid));
    let (group, _) = sizes.into_iter().max_by_key(|(group, size)| (*size, *group))?;
    Pid::from_raw(group).filter(|_| !has_ours(group))
}

/// The process of ours that has the most foreign threads below it, with none of ours between.
fn largest(seen: &[Seen], ours: &HashSet<Pid>) -> Option<Pid> {
    let threads: HashMap<Pid, u64> = seen.iter().map(|process| (process.pid, process.threads)).collect();
    let mut sizes: HashMap<Pid, u64> = HashMap::new();
    for (pid, root) in roots(seen, ours) {
        *sizes.entry(root).or_default() += threads.get(&pid).copied().unwrap_or(1);
    }
    sizes.into_iter().max_by_key(|(root, size)| (*size, root.as_raw_pid())).map(|(root, _)| root)
}

fn members(seen: &[Seen], root: Pid, ours: &HashSet<Pid>) -> Vec<Pid> {
    roots(seen, ours).into_iter().filter(|(_, found)| *found == root).map(|(pid, _)| pid).collect()
}

/// Every foreign process that is alive, with the nearest of ours above it.
fn roots(seen: &[Seen], ours: &HashSet<Pid>) -> Vec<(Pid, Pid)> {
    let parents: HashMap<Pid, Pid> =
        seen.iter().filter_map(|process| Some((process.pid, Pid::from_raw(process.parent)?))).collect();
    let above = |pid: Pid| {
        // Bounded: a scan is no snapshot, and a reused number could close a loop.
        let line = std::iter::successors(parents.get(&pid), |parent| parents.get(*parent));
        line.take(parents.len()).copied().find(|parent| ours.contains(parent))
    };
    seen.iter()
        .filter(|process| !process.is_dead && !ours.contains(&process.pid))
        // One whose line is broken was init's a moment ago, or is about to be.
        .map(|process| (process.pid, above(process.pid).unwrap_or(Pid::INIT)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).expect("positive")
    }

    #[test]
    fn the_largest_tree_is_found_with_all_its_members() {
        let seen = |number, parent, is_dead| {
            let group = if number < 10 { 1 } else { number / 10 * 10 };
            Seen { pid: pid(number), parent, group, is_dead, threads: 1, resident_pages: 0 }
        };
        // 1 is init, 2 the agent, 3 and 4 supervisors.
        let all = [
            seen(1, 0, false),
            seen(2, 1, false),
            seen(3, 2, false),
            seen(4, 2, false),
            seen(10, 3, false),
            seen(20, 4, false),
            seen(21, 20, true),
            seen(22, 21, false),
            seen(23, 4, false),
            seen(30, 1, false),
            seen(31, 99, false),
        ];
        let ours = HashSet::from([1, 2, 3, 4].map(pid));
        assert_eq!(largest(&all, &ours), Some(pid(4)));
        let mut found = members(&all, pid(4), &ours);
        found.sort_by_key(|pid| pid.as_raw_pid());
        assert_eq!(found, [pid(20), pid(22), pid(23)], "the dead are passed through");
        assert_eq!(common_group(&all, &found, &ours), Some(pid(20)));
        let mut inherited = members(&all, pid(1), &ours);
        inherited.sort_by_key(|pid| pid.as_raw_pid());
        assert_eq!(inherited, [pid(30), pid(31)]);
        assert_eq!(common_group(&all, &[pid(2), pid(3)], &ours), None, "our own is never stopped");
    }

    #[test]
    fn threads_count_and_the_dead_do_not() {
        let seen = |number, parent, is_dead, threads| Seen {
            pid: pid(number),
            parent,
            group: 1,
            is_dead,
            threads,
            resident_pages: 0,
        };
        // 2 and 3 are supervisors: below one of them is a process of many threads, below the other are several.
        let all = [
            seen(1, 0, false, 1),
            seen(2, 1, false, 1),
            seen(3, 1, false, 1),
            seen(20, 2, false, 9),
            seen(30, 3, false, 1),
            seen(31, 3, false, 1),
            seen(32, 3, true, 400),
        ];
        assert_eq!(living(&all), 14);
        assert_eq!(largest(&all, &HashSet::from([1, 2, 3].map(pid))), Some(pid(2)));
    }

    #[test]
    fn a_limit_may_be_passed_by_a_quarter() {
        assert!(!is_too_large(320, 256));
        assert!(is_too_large(321, 256));
    }
}
