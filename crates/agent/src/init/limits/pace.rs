//! How often to look, and how long to wait for what a kill brings.

use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::agent::Limits;

use super::memory::Use;

/// Between two looks where memory is in short supply. A look costs some 150 µs with the waking.
const SHORTEST: Duration = Duration::from_millis(20);

/// Between two looks where there is plenty: what four a second cost is less than the use of an idle sandbox
/// varies by.
const LONGEST: Duration = Duration::from_millis(250);

/// The fastest that memory is expected to be taken, per millisecond. Under gVisor every touch of new
/// memory goes through its kernel; what was seen is less than half of this.
const BYTES_PER_MILLISECOND: u64 = 2 << 20;

/// Until the next look.
pub(super) fn pause(now: Use, limits: Limits) -> Duration {
    let memory = limits.memory.map_or(LONGEST, |limit| {
        if now.memory >= limit / 2 {
            return SHORTEST;
        }
        Duration::from_millis((limit - now.memory) / BYTES_PER_MILLISECOND)
    });
    // A bomb doubles.
    let processes = limits.processes.map_or(LONGEST, |limit| match now.processes >= limit / 2 {
        true => SHORTEST,
        false => LONGEST,
    });
    memory.min(processes).clamp(SHORTEST, LONGEST)
}

/// A kill whose memory is coming back.
pub(super) struct Struck {
    /// Who was killed.
    pub(super) pid: Pid,
    lowest: u64,
    reached_at: Instant,
}

impl Struck {
    /// How long the use may stand still before the next process is killed.
    const PATIENCE: Duration = Duration::from_millis(250);

    /// The same while the killed process has not died: on a busy host that takes its time.
    const PATIENCE_WITH_THE_DYING: Duration = Duration::from_secs(5);

    /// A use that grows by more than this is not the killed process's.
    const SOMEBODY_ELSE: u64 = 32 << 20;

    pub(super) fn new(pid: Pid, used: u64, now: Instant) -> Self {
        Self { pid, lowest: used, reached_at: now }
    }

    /// Whether it is still worth waiting.
    pub(super) fn still_works(&mut self, used: u64, now: Instant, is_dying: bool) -> bool {
        let patience = if is_dying { Self::PATIENCE_WITH_THE_DYING } else { Self::PATIENCE };
        if used < self.lowest {
            *self = Self::new(self.pid, used, now);
        }
        used <= self.lowest + Self::SOMEBODY_ELSE && now.duration_since(self.reached_at) < patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn looks_are_rare_where_there_is_plenty() {
        let limits = Limits { memory: Some(256 * MIB), processes: Some(256) };
        let check = |memory, processes, expect| {
            assert_eq!(pause(Use { memory, processes }, limits), Duration::from_millis(expect));
        };
        check(16 * MIB, 12, 120);
        check(56 * MIB, 12, 100);
        check(128 * MIB, 12, 20);
        check(300 * MIB, 12, 20);
        check(16 * MIB, 128, 20);
        let large = Limits { memory: Some(4096 * MIB), processes: None };
        assert_eq!(pause(Use { memory: 16 * MIB, processes: 9999 }, large), LONGEST);
    }

    #[test]
    fn one_kill_is_enough_while_memory_comes_back() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut struck = Struck::new(Pid::INIT, 300 * MIB, start);
        assert!(struck.still_works(305 * MIB, at(20), false), "it has not died yet");
        assert!(struck.still_works(290 * MIB, at(200), false));
        assert!(struck.still_works(290 * MIB, at(440), false), "it fell a moment ago");
        assert!(!struck.still_works(290 * MIB, at(451), false), "it stands still");
        assert!(struck.still_works(290 * MIB, at(451), true), "nothing has been given back yet");
        assert!(!struck.still_works(323 * MIB, at(210), false), "somebody else grows");
    }
}
