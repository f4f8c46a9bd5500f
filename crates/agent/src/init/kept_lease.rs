//! What init knows of the control plane: what the agents wrote down before they died.
//!
//! The agent says when the sandbox's time is over. Between two agents init does, else a sandbox
//! whose agent cannot be started, or always dies, would never end.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use crate::lease::{Record, State};

/// As it was when the last agent died.
pub(super) struct KeptLease {
    silence_limit: Duration,
    record: Record,
    state: State,
}

impl KeptLease {
    /// For a sandbox that starts now.
    pub(super) fn new(silence_limit: Duration) -> io::Result<Self> {
        let (record, state) = (Record::new()?, State::new(Instant::now()));
        record.write(&state)?;
        Ok(Self { silence_limit, record, state })
    }

    /// What every agent is started with.
    pub(super) fn file(&self) -> &File {
        self.record.file()
    }

    /// Makes ready what the next agent reads. Where somebody has spoiled it, that is as after a
    /// start: an hour for a control plane to greet.
    pub(super) fn agent_ended(&mut self) {
        let now = Instant::now();
        self.state = self.record.read().map_or(State::new(now), |state| state.alone(now));
        // A page that is there already. Where it cannot be written, the agent makes the same of it.
        let _ = self.record.write(&self.state);
    }

    /// Whether the sandbox's time is over; to be asked while there is no agent.
    pub(super) fn is_over(&self) -> bool {
        self.state.is_over(self.silence_limit)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::lease::Lease;

    #[test]
    fn it_ends_when_no_agent_lives_to_say_so() {
        let silence_limit = Duration::from_millis(50);
        let mut kept = KeptLease::new(silence_limit).expect("a file in memory");
        assert!(!kept.is_over(), "nobody has greeted, and an hour has not passed");
        let agent = Lease::new(silence_limit, Some(kept.record.clone()));
        agent.renew(1);
        agent.connected();
        std::thread::sleep(2 * silence_limit);
        let died = Instant::now();
        kept.agent_ended();
        // Somebody was connected up to now, so the silence begins; further deaths do not renew it.
        while !kept.is_over() {
            assert!(died.elapsed() < Duration::from_secs(10), "it never ends");
            std::thread::sleep(silence_limit / 10);
            kept.agent_ended();
        }
        assert!(died.elapsed() >= silence_limit, "{:?}", died.elapsed());
    }

    #[test]
    fn a_spoiled_record_is_as_after_a_start() {
        let mut kept = KeptLease::new(Duration::ZERO).expect("a file in memory");
        kept.file().write_all_at(b"for ever", 0).expect("writable");
        kept.agent_ended();
        assert!(!kept.is_over());
        assert_eq!(kept.record.read().map(|state| state.is_over(Duration::ZERO)), Some(false));
        kept.file().set_len(0).expect("writable");
        kept.agent_ended();
        assert!(kept.record.read().is_some());
    }
}
