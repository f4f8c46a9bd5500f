//! Whom the OOM killer hit.
//!
//! The kernel says how many processes it killed in the sandbox, and to nobody but their parents
//! which. Of a command the agent sees how its program ended, how what it left behind ended, and
//! how much memory the largest of its processes had. So, in this order:
//!
//! ```text
//!  no kill was counted while it ran ──────────────────────────────────► not hit
//!  one of its processes was seen to be killed, not by the agent ──────► hit
//!  every kill is explained by what was seen of others ────────────────► not hit
//!  nothing else ran meanwhile ────────────────────────────────────────► hit
//!  it had a process large enough to be chosen: the kernel takes the
//!  largest ───────────────────────────────────────────────────────────► hit
//! ```
//!
//! The last two are for commands that survive the death of a child and do not pass it on
//! (`make`, a script that goes on). What cannot be told apart: of two such commands that are both
//! large, both are told so.

use crate::agent::Shared;

use super::command::Tree;

/// A process with less than this part of the memory is not the largest one in a sandbox that
/// runs out of it.
const PART_OF_MEMORY: u64 = 32;

/// Nor is one with less than this: a shell has some megabytes.
const LEAST_BYTES: u64 = 16 << 20;

/// What was known before a command was started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    kills: Option<u64>,
    seen: u64,
    started: u64,
    others: bool,
}

impl Before {
    /// To be called right before the start.
    pub(crate) fn now(shared: &Shared) -> Self {
        let launcher = &shared.launcher;
        Self {
            kills: shared.oom.read(),
            seen: launcher.killed_by_others(),
            started: launcher.started(),
            others: launcher.has_living(),
        }
    }

    /// Whether a command that has ended since was hit.
    pub(crate) fn was_hit(self, shared: &Shared, tree: &Tree) -> bool {
        let (Some(before), Some(now)) = (self.kills, shared.oom.read()) else { return false };
        let launcher = &shared.launcher;
        let seen_here = tree.killed_by_others();
        let facts = Facts {
            kills: now.saturating_sub(before),
            seen_here,
            seen_elsewhere: (launcher.killed_by_others() - self.seen).saturating_sub(seen_here),
            counts_only_sandbox: shared.oom.is_sandbox_own(),
            was_alone: !self.others && launcher.started() <= self.started + 1,
            peak_bytes: tree.peak_bytes(),
            memory_limit: shared.oom.memory_limit(),
        };
        let was_hit = facts.was_hit();
        if was_hit && seen_here == 0 {
            // Nobody else is to be told the same of these.
            launcher.note_killed(facts.unexplained());
        }
        was_hit
    }
}

/// What is known when a command has ended.
struct Facts {
    /// While it ran.
    kills: u64,
    /// Of its own processes, and of others, those that were seen to be killed meanwhile.
    seen_here: u64,
    seen_elsewhere: u64,
    /// No other sandbox's kills are counted.
    counts_only_sandbox: bool,
    was_alone: bool,
    peak_bytes: u64,
    memory_limit: Option<u64>,
}

impl Facts {
    fn unexplained(&self) -> u64 {
        self.kills.saturating_sub(self.seen_elsewhere)
    }

    fn was_hit(&self) -> bool {
        if self.kills == 0 || self.seen_here > 0 {
            return self.kills > 0;
        }
        if self.unexplained() == 0 || !self.counts_only_sandbox {
            return false;
        }
        let large = LEAST_BYTES.max(self.memory_limit.unwrap_or(0) / PART_OF_MEMORY);
        self.was_alone || self.peak_bytes >= large
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_was_hit() {
        let quiet = || Facts {
            kills: 1,
            seen_here: 0,
            seen_elsewhere: 0,
            counts_only_sandbox: true,
            was_alone: false,
            peak_bytes: 2 << 20,
            memory_limit: Some(1 << 30),
        };
        let check = |facts: Facts, expect: bool, why: &str| assert_eq!(facts.was_hit(), expect, "{why}");
        check(Facts { kills: 0, seen_here: 1, was_alone: true, ..quiet() }, false, "kill -9 by itself");
        check(Facts { seen_here: 1, ..quiet() }, true, "its own process was killed");
        check(Facts { seen_here: 1, seen_elsewhere: 1, ..quiet() }, true, "and another's too");
        check(Facts { seen_elsewhere: 1, was_alone: true, ..quiet() }, false, "another's was");
        check(quiet(), false, "too small, beside others");
        check(Facts { was_alone: true, ..quiet() }, true, "nobody else was there");
        check(Facts { peak_bytes: 40 << 20, ..quiet() }, true, "large enough");
        check(Facts { peak_bytes: 20 << 20, ..quiet() }, false, "not large for this sandbox");
        check(Facts { peak_bytes: 20 << 20, memory_limit: None, ..quiet() }, true, "large for any");
        check(Facts { peak_bytes: 40 << 20, seen_elsewhere: 1, ..quiet() }, false, "explained");
        check(Facts { kills: 2, peak_bytes: 40 << 20, seen_elsewhere: 1, ..quiet() }, true, "one is not");
        let host = || Facts { counts_only_sandbox: false, was_alone: true, ..quiet() };
        check(host(), false, "perhaps another sandbox's");
        check(Facts { seen_here: 1, ..host() }, true, "its own, most likely");
    }
}
