//! Limits that the sandbox's kernel does not uphold.
//!
//! ```text
//!  look ─► memory in use ──► above the limit ─► the largest process is killed, and counted
//!    ▲  └► files in /dev ──► too large ───────► whoever writes there is killed, and they are removed
//!    │  └► processes ──────► far above it ────► the largest tree is killed
//!    │
//!    └── again in 20 ms; later, the more memory is free
//! ```
//!
//! Under gVisor the wall around the sandbox is a control group of the host's, and to reach it ends
//! the whole sandbox. It stands above the limit by what gVisor itself needs, and init looks often
//! enough to be first. Init and not the agent, because the agent may be killed by what runs beside
//! it. What allocates faster than this looks still ends the sandbox.

mod crowd;
mod devices;
mod kills;
mod largest;
mod memory;
mod pace;

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::agent::Limits;
use crate::tree;

pub(crate) use crowd::is_near;
use kills::Kills;
use memory::Use;
use pace::{Struck, pause};

/// A use this far above the limit is acted upon without a second look at it: the wall is near.
const URGENT_BYTES: u64 = 64 << 20;

/// Where a crowd turned out to be of the dead, so long nobody is held up to look at it again: somebody may
/// keep them from being buried.
const DEAD_CROWD: Duration = Duration::from_secs(2);

/// Looks after the limits.
pub(super) struct Guard {
    limits: Limits,
    kills: Kills,
    next: Instant,
    struck: Option<Struck>,
    no_crowd_until: Instant,
}

impl Guard {
    /// `None` where there is nothing to look after.
    pub(super) fn new(limits: Limits) -> io::Result<Option<Self>> {
        if limits == Limits::default() {
            return Ok(None);
        }
        Ok(Some(Self {
            limits,
            kills: Kills::new()?,
            next: Instant::now(),
            struck: None,
            no_crowd_until: Instant::now(),
        }))
    }

    /// Where kills are counted.
    pub(super) fn kills(&self) -> &File {
        self.kills.file()
    }

    /// When to look next.
    pub(super) fn due(&self) -> Instant {
        self.next
    }

    /// Looks, when it is time.
    pub(super) fn look_when_due(&mut self) {
        if self.next > Instant::now() {
            return;
        }
        let now = Use::now();
        if let Some(limit) = self.limits.memory {
            self.look_at_devices(limit);
            self.look_at_memory(now.memory, limit);
        }
        if let Some(limit) = self.limits.processes
            && crowd::is_too_large(now.processes, limit)
            && self.no_crowd_until <= Instant::now()
            && !crowd::disperse(limit)
        {
            self.no_crowd_until = Instant::now() + DEAD_CROWD;
        }
        self.next = Instant::now() + pause(now, self.limits);
    }

    fn look_at_devices(&mut self, limit: u64) {
        if !devices::are_too_large(limit) {
            return;
        }
        for pid in devices::writers() {
            self.kill(pid);
        }
        devices::clear();
    }

    /// Counted first: whoever sees the death finds it explained.
    fn kill(&mut self, pid: Pid) -> bool {
        self.kills.add();
        let killed = kill_process(pid, Signal::KILL).is_ok();
        if !killed {
            self.kills.take_back();
        }
        killed
    }

    fn look_at_memory(&mut self, used: u64, limit: u64) {
        if used <= limit {
            self.struck = None;
            return;
        }
        // What was killed gives its memory back little by little.
        if let Some(struck) = &mut self.struck {
            let is_dying = tree::is_alive(struck.pid);
            if struck.still_works(used, Instant::now(), is_dying) {
                return;
            }
        }
        // Memory that was freed counts until gVisor has returned it; most of the time it is quicker.
        if used <= limit + URGENT_BYTES && memory::held().is_some_and(|held| held <= limit) {
            return;
        }
        let Some(pid) = largest::foreign(limit) else { return };
        if self.kill(pid) {
            self.struck = Some(Struck::new(pid, used, Instant::now()));
        }
    }
}
