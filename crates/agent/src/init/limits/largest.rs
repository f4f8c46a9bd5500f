//! Whom to kill when there is not enough memory.

use rustix::process::Pid;

use crate::quiesce::Looks;
use crate::tree;

/// The process with the most memory, but for init, the agent and what helps it.
pub(super) fn foreign() -> Option<Pid> {
    let mut seen = tree::scan();
    seen.retain(|process| !process.is_dead);
    seen.sort_by_key(|process| std::cmp::Reverse(process.resident_pages));
    let this = rustix::process::getpid();
    let own = Looks::of(this);
    // Looked at one by one: most often the first is it.
    seen.iter().map(|process| process.pid).find(|pid| *pid != this && !Looks::of(*pid).is_like(&own))
}
