//! Whom to kill when there is not enough memory.

use rustix::process::Pid;

use crate::quiesce::Looks;
use crate::tree;

/// A process with less than this part of the limit is not to blame, and its end would not help.
const PART_OF_LIMIT: u64 = 64;

/// In these the kernel counts what is resident.
const PAGE_BYTES: u64 = 4096;

/// The process with the most memory, but for init, the agent and what helps it.
pub(super) fn foreign(limit: u64) -> Option<Pid> {
    let least_pages = limit / PART_OF_LIMIT / PAGE_BYTES;
    let mut seen = tree::scan();
    seen.retain(|process| !process.is_dead && process.resident_pages >= least_pages);
    seen.sort_by_key(|process| std::cmp::Reverse(process.resident_pages));
    let this = rustix::process::getpid();
    let own = Looks::of(this);
    // Looked at one by one: most often the first is it.
    seen.iter().map(|process| process.pid).find(|pid| *pid != this && !Looks::of(*pid).is_like(&own))
}
