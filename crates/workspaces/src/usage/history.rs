//! What one workspace used lately. Bounded: the last few minutes, and one look besides.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use emergent_provider::Usage;
use time::OffsetDateTime;
use tokio::sync::Mutex as TurnLock;

/// How many samples are kept.
const KEPT: usize = 60;

/// The least time between two looks of which the processor time is compared: in less, little is counted,
/// and that in steps.
const LEAST: Duration = Duration::from_millis(500);

/// What a workspace used at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// When.
    pub at: OffsetDateTime,
    /// What its host counted.
    pub usage: Usage,
    /// Processors in use since the look before; `None` for the first one.
    pub cpu_cores: Option<f64>,
}

/// What is known of the use of one workspace.
#[derive(Default)]
pub(crate) struct UsageHistory {
    looks: Mutex<Looks>,
    /// One look at a time: a provider that is slow is not asked again meanwhile.
    turn: TurnLock<()>,
}

#[derive(Default)]
struct Looks {
    kept: VecDeque<(Instant, Sample)>,
    latest: Option<(Instant, Option<Sample>)>,
    /// What came before the latest, where that was not kept.
    before: Option<(Instant, Sample)>,
}

impl UsageHistory {
    pub(super) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    fn looks(&self) -> MutexGuard<'_, Looks> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_newer_than(&self, moment: Instant) -> bool {
        self.looks().latest.as_ref().is_some_and(|(at, _)| *at >= moment)
    }

    pub(super) fn is_fresh(&self, age: Duration) -> bool {
        self.looks().latest.as_ref().is_some_and(|(at, _)| at.elapsed() < age)
    }

    /// Notes what was seen.
    pub(super) fn add(&self, usage: Option<Usage>, now: Instant) {
        self.looks().add(usage, now);
    }

    /// Keeps the latest one with the others.
    pub(super) fn keep_latest(&self) {
        self.looks().keep_latest();
    }

    pub(crate) fn latest(&self) -> Option<Sample> {
        self.looks().latest.and_then(|(_, sample)| sample)
    }

    /// The latest one, unless it is too old to say anything about now.
    pub(super) fn recent(&self, age: Duration) -> Option<Sample> {
        let (at, sample) = self.looks().latest?;
        sample.filter(|_| at.elapsed() <= age)
    }

    pub(super) fn kept(&self) -> Vec<Sample> {
        self.looks().kept.iter().map(|(_, sample)| *sample).collect()
    }
}

impl Looks {
    fn add(&mut self, usage: Option<Usage>, now: Instant) {
        if let Some((at, Some(sample))) = self.latest {
            self.before = Some((at, sample));
        }
        let sample = usage.map(|usage| Sample {
            at: emergent_store::now(),
            usage,
            cpu_cores: self.cores(&usage, now),
        });
        self.latest = Some((now, sample));
    }

    /// Processors in use since the nearest look that is long enough ago.
    fn cores(&self, usage: &Usage, now: Instant) -> Option<f64> {
        let since = |at: Instant| now.saturating_duration_since(at);
        let (at, earlier) =
            self.before.iter().chain(self.kept.iter().rev()).find(|(at, _)| since(*at) >= LEAST).copied()?;
        // Less than before: it was started again meanwhile.
        let spent = usage.cpu_time?.checked_sub(earlier.usage.cpu_time?)?;
        Some(spent.as_secs_f64() / since(at).as_secs_f64())
    }

    fn keep_latest(&mut self) {
        let Some((at, Some(sample))) = self.latest else { return };
        if self.kept.back().is_some_and(|(last, _)| *last == at) {
            return;
        }
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((at, sample));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(millis: u64) -> Option<Usage> {
        Some(Usage { cpu_time: Some(Duration::from_millis(millis)), ..Usage::default() })
    }

    #[test]
    fn processors_are_what_was_spent_since_the_look_before() {
        let begin = Instant::now();
        let mut looks = Looks::default();
        let cores = |looks: &Looks| looks.latest.unwrap().1.unwrap().cpu_cores;
        let mut at = |seconds: f64, millis: u64| {
            looks.add(used(millis), begin + Duration::from_secs_f64(seconds));
            cores(&looks)
        };
        assert_eq!(at(0.0, 1000), None);
        assert_eq!(at(10.0, 6000), Some(0.5));
        assert_eq!(at(12.0, 10_000), Some(2.0));
        // Started again.
        assert_eq!(at(14.0, 5), None);
        assert_eq!(at(16.0, 1005), Some(0.5));
    }

    #[test]
    fn two_looks_in_a_row_are_compared_with_an_earlier_one() {
        let begin = Instant::now();
        let mut looks = Looks::default();
        looks.add(used(0), begin);
        looks.keep_latest();
        looks.add(used(1000), begin + Duration::from_secs(1));
        looks.add(used(1010), begin + Duration::from_millis(1010));
        assert_eq!(looks.latest.unwrap().1.unwrap().cpu_cores, Some(1.0));
    }

    #[test]
    fn the_history_is_bounded_and_keeps_nothing_twice() {
        let begin = Instant::now();
        let mut looks = Looks::default();
        for second in 0..1000 {
            looks.add(used(second), begin + Duration::from_secs(second));
            looks.keep_latest();
            looks.keep_latest();
        }
        assert_eq!(looks.kept.len(), KEPT);
        let first = looks.kept.front().unwrap().1.usage.cpu_time;
        assert_eq!(first, Some(Duration::from_millis(1000 - KEPT as u64)));
        looks.add(None, begin + Duration::from_secs(1000));
        assert_eq!(looks.latest.unwrap().1, None, "nothing is known any more");
    }
}
