//! How long to wait before something is tried again.

use std::time::Duration;

/// How often it is tried in all.
pub(crate) const ATTEMPTS: u32 = 3;

/// The pause after an attempt that failed: 2 s, then 4 s, each a fifth more or less, so that those who failed
/// together do not come back together.
pub(crate) fn after(attempt: u32) -> Duration {
    let mut random = [0; 2];
    // Without randomness the pause is just not spread.
    let spread = match getrandom::fill(&mut random) {
        Ok(()) => f64::from(u16::from_be_bytes(random)) / f64::from(u16::MAX),
        Err(_) => 0.5,
    };
    spread_by(attempt, spread)
}

fn spread_by(attempt: u32, spread: f64) -> Duration {
    let base = 2 << (attempt.clamp(1, 6) - 1);
    Duration::from_secs(base).mul_f64(0.8 + 0.4 * spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_spread() {
        let check = |attempt, spread, milliseconds| {
            assert_eq!(spread_by(attempt, spread).as_millis(), milliseconds, "{attempt} {spread}");
        };
        check(1, 0.5, 2000);
        check(1, 0.0, 1600);
        check(1, 1.0, 2400);
        check(2, 0.5, 4000);
        check(2, 0.0, 3200);
        check(2, 1.0, 4800);
        for _ in 0..100 {
            assert!((1600..=2400).contains(&after(1).as_millis()));
        }
    }
}
