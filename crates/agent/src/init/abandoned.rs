//! Commands of an agent that died.
//!
//! Whoever waited for them is gone, so they are ended as those of a caller that is: SIGTERM,
//! five seconds, SIGKILL. Their supervisors have become children of init, and end with what is
//! below them. What was started in the background goes on.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::exec;
use crate::quiesce::Looks;
use crate::tree;

use super::GRACE;

/// How long after a SIGKILL it is looked whether anything is left.
const PAUSE: Duration = Duration::from_millis(200);

/// After this what is left is stuck in the kernel, and more signals do not help.
const ATTEMPTS: usize = 50;

/// What is still to be done about them.
#[derive(Default)]
pub(super) struct Abandoned {
    next: Option<Kill>,
}

struct Kill {
    at: Instant,
    attempts_left: usize,
}

impl Abandoned {
    /// Asks them to end; to be called when an agent has died.
    pub(super) fn ask(&mut self) {
        let supervisors = supervisors();
        if supervisors.is_empty() {
            return;
        }
        for supervisor in supervisors {
            tree::signal_all(&tree::descendants(supervisor), Signal::TERM);
        }
        self.next = Some(Kill { at: Instant::now() + GRACE, attempts_left: ATTEMPTS });
    }

    /// When something is to be done next.
    pub(super) fn due(&self) -> Option<Instant> {
        self.next.as_ref().map(|kill| kill.at)
    }

    /// Kills those that are left, when it is time.
    pub(super) fn kill_when_due(&mut self) {
        let Some(kill) = self.next.take_if(|kill| kill.at <= Instant::now()) else { return };
        let supervisors = supervisors();
        for supervisor in &supervisors {
            tree::kill_forking(None, || tree::descendants(*supervisor));
        }
        if !supervisors.is_empty() && kill.attempts_left > 0 {
            let at = Instant::now() + PAUSE;
            self.next = Some(Kill { at, attempts_left: kill.attempts_left - 1 });
        }
    }
}

/// The supervisors that lost their agent, but for those of background processes.
fn supervisors() -> Vec<Pid> {
    let this = rustix::process::getpid();
    let own = Looks::of(this);
    let is_one = |looks: &Looks| looks.has_name(exec::SUPERVISOR) && looks.is_like(&own);
    tree::children(this).into_iter().filter(|child| is_one(&Looks::of(*child))).collect()
}
