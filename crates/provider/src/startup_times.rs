//! How long creates took, measured.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use emergent_types::StartupMillis;

/// How many of the latest creates are remembered.
const KEPT: usize = 200;

/// The durations of the latest creates.
#[derive(Debug, Default)]
pub struct StartupTimes {
    latest: Mutex<VecDeque<Duration>>,
}

impl StartupTimes {
    /// One more.
    pub fn add(&self, took: Duration) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.len() == KEPT {
            latest.pop_front();
        }
        latest.push_back(took);
    }

    /// `None` before the first create.
    pub fn summary(&self) -> Option<StartupMillis> {
        let mut sorted: Vec<_> =
            self.latest.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        let at = |percent: usize| {
            let millis = sorted[(last * percent).div_ceil(100)].as_secs_f64() * 1000.0;
            millis.round() as u64
        };
        Some(StartupMillis { p50: at(50), p95: at(95) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_the_latest() {
        let times = StartupTimes::default();
        assert_eq!(times.summary(), None);
        times.add(Duration::from_millis(7));
        assert_eq!(times.summary(), Some(StartupMillis { p50: 7, p95: 7 }));
        for millis in 0..=KEPT as u64 {
            times.add(Duration::from_millis(1000 + millis));
        }
        assert_eq!(times.summary(), Some(StartupMillis { p50: 1101, p95: 1191 }));
    }
}
