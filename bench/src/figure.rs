//! A measured quantity, and how it is written.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::nanoseconds;
use crate::stats::Spread;

/// One measured quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Figure {
    #[serde(rename = "time_ns", with = "nanoseconds")]
    Time(Duration),
    Bytes(u64),
    Count(u64),
}

impl fmt::Display for Figure {
    /// Three significant digits, in the unit in which they are easiest to compare.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => {
                let seconds = time.as_secs_f64();
                match seconds {
                    s if s < 1e-3 => write!(f, "{:.0} µs", s * 1e6),
                    s if s < 1e-2 => write!(f, "{:.2} ms", s * 1e3),
                    s if s < 0.1 => write!(f, "{:.1} ms", s * 1e3),
                    s if s < 1.0 => write!(f, "{:.0} ms", s * 1e3),
                    s => write!(f, "{s:.2} s"),
                }
            }
            Self::Bytes(bytes) => write!(f, "{:.1} MiB", *bytes as f64 / f64::from(1 << 20)),
            Self::Count(count) => write!(f, "{count}"),
        }
    }
}

/// What came of a measurement: many durations, or one quantity.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measured {
    Spread(Spread),
    Single(Figure),
}

impl Measured {
    pub(crate) fn p50(&self) -> Figure {
        match self {
            Self::Spread(spread) => Figure::Time(spread.p50),
            Self::Single(figure) => *figure,
        }
    }

    pub(crate) fn p95(&self) -> Option<Figure> {
        match self {
            Self::Spread(spread) => Some(Figure::Time(spread.p95)),
            Self::Single(_) => None,
        }
    }

    pub(crate) fn p99(&self) -> Option<Figure> {
        match self {
            Self::Spread(spread) => Some(Figure::Time(spread.p99)),
            Self::Single(_) => None,
        }
    }
}

impl From<Spread> for Measured {
    fn from(spread: Spread) -> Self {
        Self::Spread(spread)
    }
}

impl From<Figure> for Measured {
    fn from(figure: Figure) -> Self {
        Self::Single(figure)
    }
}

/// What a measurement should reach.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    /// Our median, as a multiple of the bare alternative's.
    Ratio(f64),
    /// Our median or quantity itself.
    AtMost(Figure),
    /// Our quantity itself, of which more is better.
    AtLeast(Figure),
    /// Our median and our 99th percentile, each by itself.
    Percentiles {
        #[serde(rename = "p50_ns", with = "nanoseconds")]
        p50: Duration,
        #[serde(rename = "p99_ns", with = "nanoseconds")]
        p99: Duration,
    },
    /// Our 99th percentile.
    #[serde(rename = "p99_ns", with = "nanoseconds")]
    P99(Duration),
    /// Exactly this quantity.
    Exactly(Figure),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ratio(ratio) => write!(f, "≤ {ratio} ×"),
            Self::AtMost(figure) => write!(f, "≤ {figure}"),
            Self::AtLeast(figure) => write!(f, "≥ {figure}"),
            Self::Percentiles { p50, p99 } => {
                write!(f, "≤ {}, p99 ≤ {}", Figure::Time(*p50), Figure::Time(*p99))
            }
            Self::P99(p99) => write!(f, "p99 ≤ {}", Figure::Time(*p99)),
            Self::Exactly(figure) => write!(f, "{figure}"),
        }
    }
}

impl Target {
    /// Whether it is reached. A ratio without a bare figure is not, nor is a percentile of a single
    /// quantity.
    pub(crate) fn is_met(&self, ours: &Measured, bare: Option<&Measured>) -> bool {
        match self {
            Self::Ratio(most) => ratio(ours, bare).is_some_and(|ratio| ratio <= *most),
            Self::AtMost(most) => ours.p50() <= *most,
            Self::AtLeast(least) => ours.p50() >= *least,
            Self::Percentiles { p50, p99 } => {
                ours.p50() <= Figure::Time(*p50) && Self::P99(*p99).is_met(ours, bare)
            }
            Self::P99(most) => ours.p99().is_some_and(|p99| p99 <= Figure::Time(*most)),
            Self::Exactly(figure) => ours.p50() == *figure,
        }
    }
}

/// Our median as a multiple of the bare one.
pub(crate) fn ratio(ours: &Measured, bare: Option<&Measured>) -> Option<f64> {
    let (ours, bare) = match (ours.p50(), bare?.p50()) {
        (Figure::Time(ours), Figure::Time(bare)) => (ours.as_secs_f64(), bare.as_secs_f64()),
        (Figure::Bytes(ours), Figure::Bytes(bare)) => (ours as f64, bare as f64),
        _ => return None,
    };
    (bare > 0.0).then(|| ours / bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_to_be_compared() {
        let check = |figure: Figure, expect: &str| assert_eq!(figure.to_string(), expect);
        check(Figure::Time(Duration::from_nanos(340_600)), "341 µs");
        check(Figure::Time(Duration::from_micros(1234)), "1.23 ms");
        check(Figure::Time(Duration::from_micros(23_456)), "23.5 ms");
        check(Figure::Time(Duration::from_millis(321)), "321 ms");
        check(Figure::Time(Duration::from_millis(4321)), "4.32 s");
        check(Figure::Bytes(5 << 19), "2.5 MiB");
        check(Figure::Count(50), "50");
    }

    #[test]
    fn targets() {
        let time = |millis| Measured::from(Figure::Time(Duration::from_millis(millis)));
        let check = |target: Target, ours, bare: Option<Measured>, expect| {
            assert_eq!(target.is_met(&ours, bare.as_ref()), expect, "{target}");
        };
        check(Target::Ratio(1.3), time(13), Some(time(10)), true);
        check(Target::Ratio(1.3), time(14), Some(time(10)), false);
        check(Target::Ratio(1.3), time(1), None, false);
        let limit = Target::AtMost(Figure::Time(Duration::from_millis(1)));
        check(limit, time(1), None, true);
        check(limit, time(2), None, false);
        let millis = Duration::from_millis;
        let spread = |p50, p99| {
            Measured::from(Spread { count: 9, p50: millis(p50), p95: millis(p99), p99: millis(p99) })
        };
        let both = Target::Percentiles { p50: millis(10), p99: millis(50) };
        assert_eq!(both.to_string(), "≤ 10.0 ms, p99 ≤ 50.0 ms");
        check(both, spread(10, 50), None, true);
        check(both, spread(11, 50), None, false);
        check(both, spread(10, 51), None, false);
        check(both, time(1), None, false);
        check(Target::P99(millis(20)), spread(30, 30), None, false);
        check(Target::P99(millis(20)), spread(1, 20), None, true);
        check(Target::Exactly(Figure::Count(50)), Figure::Count(49).into(), None, false);
        check(Target::AtLeast(Figure::Count(50)), Figure::Count(51).into(), None, true);
        check(Target::AtLeast(Figure::Count(50)), Figure::Count(49).into(), None, false);
    }
}
