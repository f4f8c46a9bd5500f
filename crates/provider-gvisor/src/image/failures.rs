//! What could not be had lately, so that nobody waits for it again at once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Nobody asks further back than this.
const KEPT: Duration = Duration::from_secs(600);

/// Reasons by name.
#[derive(Default)]
pub(super) struct Failures(Mutex<HashMap<String, (Instant, String)>>);

impl Failures {
    pub(super) fn remember(&self, name: &str, reason: &str) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Names come from requests: there are as many as somebody cares to make up.
        failures.retain(|_, (at, _)| at.elapsed() < KEPT);
        failures.insert(name.to_owned(), (Instant::now(), reason.to_owned()));
    }

    /// Why it could not be had, if that was found out within this time.
    pub(super) fn recent(&self, name: &str, within: Duration) -> Option<String> {
        let failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, reason) = failures.get(name)?;
        (at.elapsed() < within).then(|| reason.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_known_for_a_while() {
        let failures = Failures::default();
        failures.remember("a", "no route");
        assert_eq!(failures.recent("a", Duration::from_secs(60)).as_deref(), Some("no route"));
        assert_eq!(failures.recent("a", Duration::ZERO), None);
        assert_eq!(failures.recent("b", Duration::from_secs(60)), None);
    }
}
