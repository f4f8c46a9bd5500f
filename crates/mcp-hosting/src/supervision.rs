//! When a program is started and when it is left alone: a pure, total function.
//!
//! ```text
//!             ┌──────────── Due ────────────┐
//!             ▼                             │
//!  Start ─► Starting ──Up──► Running ─Down─► Waiting        by policy: Ended
//!             │                │            ▲                 │
//!             └─────Down───────┼────────────┘                 │
//!             Restart, Close   ▼                              │
//!             └────────────► Ending ─Down─► Starting | Closed │
//!                                           ▲───── Restart ───┘
//! ```
//!
//! A program that ends is started again at once. One that ended more than [`TOLERATED`] times within
//! [`WINDOW`], or as often in a row before it was ready, has to wait, longer each time, until it has stayed up for [`SUSTAINED`]. That it was started
//! proves nothing.

use std::collections::VecDeque;
use std::time::Duration;

use emergent_types::RestartPolicy;
use tokio::time::Instant;

/// Ends within [`WINDOW`] after which the next start does not wait yet.
pub(crate) const TOLERATED: usize = 3;
/// In which they are counted.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);
/// How long a program must stay up until what was is forgotten.
pub(crate) const SUSTAINED: Duration = Duration::from_secs(60);
/// How long the starts after that wait; all further ones as long as the last.
pub(crate) const DELAYS: [Duration; 5] = [
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_secs(45),
    Duration::from_secs(120),
    Duration::from_secs(300),
];

/// Where a program is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It is being started.
    Starting,
    /// It runs.
    Running {
        /// Since when.
        since: Instant,
        /// Whether it did not answer when it was asked.
        deaf: bool,
    },
    /// It ended and is started again.
    Waiting {
        /// When.
        until: Instant,
        /// Whether that is a punishment.
        backing_off: bool,
    },
    /// It was told to end.
    Ending {
        /// What comes next.
        then: Then,
    },
    /// It ended, and its policy is to leave it.
    Ended,
    /// Nothing is ever started again.
    Closed,
}

/// What comes after an end that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Start,
    Close,
}

/// What happens to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// It is ready.
    Up,
    /// It is gone, or could not be started.
    Down {
        /// Whether it ended with code 0.
        clean: bool,
    },
    /// The time it had to wait is over.
    Due,
    /// It was asked whether it is there.
    Asked {
        /// And it is.
        answered: bool,
    },
    /// Somebody wants a new process.
    Restart,
    /// Somebody wants none any more.
    Close,
}

/// What is to be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    Start,
    /// Tell it to end; it is `Down` when it has.
    End,
}

/// The life of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Supervision {
    pub(crate) state: State,
    pub(crate) policy: RestartPolicy,
    /// Starts that nobody asked for, since somebody last did.
    pub(crate) restarts: u32,
    /// Ends within the window.
    ends: VecDeque<Instant>,
    /// How many starts in a row had to wait.
    level: usize,
    /// How many starts in a row came to nothing.
    fruitless: usize,
}

impl Supervision {
    /// One whose first start is under way.
    pub(crate) fn new(policy: RestartPolicy) -> Self {
        Self { state: State::Starting, policy, restarts: 0, ends: VecDeque::new(), level: 0, fruitless: 0 }
    }

    /// What becomes of it, and what is to be done.
    pub(crate) fn step(mut self, input: Input, now: Instant) -> (Self, Action) {
        let (state, action) = match (self.state, input) {
            (State::Closed, _) => (State::Closed, Action::Nothing),

            (State::Starting, Input::Up) => {
                self.fruitless = 0;
                (State::Running { since: now, deaf: false }, Action::Nothing)
            }
            (State::Starting, Input::Down { clean }) => {
                self.fruitless += 1;
                self.after_the_end(clean, now)
            }
            (State::Running { since, .. }, Input::Down { clean }) => {
                if now.duration_since(since) >= SUSTAINED {
                    self.forget();
                }
                self.after_the_end(clean, now)
            }
            (State::Running { since, .. }, Input::Asked { answered }) => {
                (State::Running { since, deaf: !answered }, Action::Nothing)
            }
            (State::Starting | State::Running { .. }, Input::Restart) => {
                self.start_over();
                (State::Ending { then: Then::Start }, Action::End)
            }
            (State::Starting | State::Running { .. }, Input::Close) => {
                (State::Ending { then: Then::Close }, Action::End)
            }

            (State::Waiting { .. }, Input::Due) => {
                self.restarts = self.restarts.saturating_add(1);
                (State::Starting, Action::Start)
            }
            (State::Waiting { .. } | State::Ended, Input::Restart) => {
                self.start_over();
                (State::Starting, Action::Start)
            }
            (State::Waiting { .. } | State::Ended, Input::Close) => (State::Closed, Action::Nothing),

            (State::Ending { then: Then::Start }, Input::Down { .. }) => (State::Starting, Action::Start),
            (State::Ending { then: Then::Close }, Input::Down { .. }) => (State::Closed, Action::Nothing),
            (State::Ending { .. }, Input::Close) => (State::Ending { then: Then::Close }, Action::Nothing),

            // News of a process that is over, and wishes that are being fulfilled.
            (state @ State::Starting, Input::Due | Input::Asked { .. })
            | (state @ State::Running { .. }, Input::Up | Input::Due)
            | (
                state @ (State::Waiting { .. } | State::Ended),
                Input::Up | Input::Down { .. } | Input::Asked { .. },
            )
            | (state @ State::Ended, Input::Due)
            | (state @ State::Ending { .. }, Input::Up | Input::Due | Input::Asked { .. } | Input::Restart) => {
                (state, Action::Nothing)
            }
        };
        self.state = state;
        (self, action)
    }

    fn after_the_end(&mut self, clean: bool, now: Instant) -> (State, Action) {
        let stays = match self.policy {
            RestartPolicy::Always => false,
            RestartPolicy::OnFailure => clean,
            RestartPolicy::Never => true,
        };
        if stays {
            return (State::Ended, Action::Nothing);
        }
        let delay = self.delay(now);
        let until = now + delay.unwrap_or_default();
        (State::Waiting { until, backing_off: delay.is_some() }, Action::Nothing)
    }

    /// How long the next start waits; `None` where it does not.
    fn delay(&mut self, now: Instant) -> Option<Duration> {
        self.ends.push_back(now);
        while self.ends.front().is_some_and(|end| now.duration_since(*end) > WINDOW) {
            self.ends.pop_front();
        }
        // A start that takes longer than the window to come to nothing is never alone in it.
        if self.level == 0 && self.ends.len() <= TOLERATED && self.fruitless <= TOLERATED {
            return None;
        }
        let delay = DELAYS[self.level.min(DELAYS.len() - 1)];
        self.level += 1;
        Some(delay)
    }

    fn forget(&mut self) {
        self.ends.clear();
        self.level = 0;
        self.fruitless = 0;
    }

    fn start_over(&mut self) {
        self.forget();
        self.restarts = 0;
    }
}

#[cfg(test)]
mod tests;
