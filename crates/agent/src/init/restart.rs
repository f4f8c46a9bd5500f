//! The pace at which an agent that keeps dying is started again.

use std::time::Duration;

/// After the first death.
const SHORTEST: Duration = Duration::from_millis(100);

/// However often it dies.
const LONGEST: Duration = Duration::from_secs(5);

/// An agent that lived this long was healthy: its death is a first one.
const HEALTHY: Duration = Duration::from_secs(60);

/// Doubles from the shortest pause to the longest.
#[derive(Debug, Default)]
pub(super) struct Restart {
    last: Option<Duration>,
}

impl Restart {
    /// How long to wait after an agent that lived this long.
    pub(super) fn after(&mut self, lived: Duration) -> Duration {
        let pause = match self.last {
            Some(last) if lived < HEALTHY => (last * 2).min(LONGEST),
            _ => SHORTEST,
        };
        self.last = Some(pause);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_a_bound_and_forgets() {
        let mut restart = Restart::default();
        let pauses: Vec<_> = (0..8).map(|_| restart.after(Duration::ZERO).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(restart.after(HEALTHY), SHORTEST);
    }
}
