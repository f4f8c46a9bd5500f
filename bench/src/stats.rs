//! Durations of repeated work, and what of them is reported.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::nanoseconds;

/// How long each repetition took.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    durations: Vec<Duration>,
}

impl Samples {
    pub(crate) fn add(&mut self, took: Duration) {
        self.durations.push(took);
    }

    /// Notes the time since `start`.
    pub(crate) fn add_since(&mut self, start: Instant) {
        self.add(start.elapsed());
    }

    /// Percentiles by the nearest rank: each is a duration that was really measured. `None`
    /// without a single sample.
    pub(crate) fn spread(&self) -> Option<Spread> {
        let mut sorted = self.durations.clone();
        sorted.sort_unstable();
        let at = |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).checked_sub(1)?).copied();
        Some(Spread { count: sorted.len(), p50: at(50)?, p95: at(95)?, p99: at(99)? })
    }
}

impl Extend<Duration> for Samples {
    fn extend<T: IntoIterator<Item = Duration>>(&mut self, durations: T) {
        self.durations.extend(durations);
    }
}

impl FromIterator<Duration> for Samples {
    fn from_iter<T: IntoIterator<Item = Duration>>(durations: T) -> Self {
        Self { durations: durations.into_iter().collect() }
    }
}

/// What is reported of many durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) count: usize,
    #[serde(rename = "p50_ns", with = "nanoseconds")]
    pub(crate) p50: Duration,
    #[serde(rename = "p95_ns", with = "nanoseconds")]
    pub(crate) p95: Duration,
    #[serde(rename = "p99_ns", with = "nanoseconds")]
    pub(crate) p99: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let check = |samples: &[u64], expect: Option<(u64, u64, u64)>| {
            let samples: Samples = samples.iter().copied().map(Duration::from_millis).collect();
            let millis = |took: Duration| took.as_millis() as u64;
            let found =
                samples.spread().map(|spread| (millis(spread.p50), millis(spread.p95), millis(spread.p99)));
            assert_eq!(found, expect);
        };
        check(&[], None);
        check(&[7], Some((7, 7, 7)));
        check(&[2, 1], Some((1, 2, 2)));
        check(&[3, 1, 2], Some((2, 3, 3)));
        check(&(1..=100).rev().collect::<Vec<_>>(), Some((50, 95, 99)));
        check(&(1..=1000).collect::<Vec<_>>(), Some((500, 950, 990)));
    }
}
