//! What a run comes to: the table at the end, and whether it was a success.

use std::fmt::Write;
use std::time::Duration;

use super::tiers::TierName;

/// What became of one tier.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) tier: TierName,
    pub(crate) outcome: Outcome,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    /// The tests ran. `complaint` is what is wrong beyond failed tests.
    Ran {
        passed: usize,
        failed: usize,
        /// The names of those that failed once and passed then.
        second_tries: Vec<String>,
        /// How many more there are with `--long`.
        left_for_long: usize,
        took: Duration,
        budget: Duration,
        complaint: Option<String>,
    },
    /// The tests are there and did not run.
    Skipped {
        tests: usize,
        reason: String,
        possible_here: bool,
    },
    NoTestsYet,
}

impl Outcome {
    fn over_budget(&self) -> bool {
        matches!(self, Self::Ran { took, budget, .. } if took > budget)
    }

    /// Under CI nothing may be left out that a machine of this kind can run.
    fn is_failure(&self, ci: bool) -> bool {
        match self {
            Self::Ran { failed, complaint, .. } => *failed > 0 || complaint.is_some() || self.over_budget(),
            Self::Skipped { possible_here, .. } => ci && *possible_here,
            Self::NoTestsYet => false,
        }
    }
}

pub(crate) fn succeeded(rows: &[Row], ci: bool) -> bool {
    !rows.iter().any(|row| row.outcome.is_failure(ci))
}

/// The table and, alone on the last line, the sums.
pub(crate) fn render(rows: &[Row], ci: bool) -> String {
    let mut text = format!(
        "\n{:<8} {:<8} {:>6} {:>6} {:>8} {:>7}  {}\n",
        "tier", "result", "passed", "failed", "seconds", "budget", "why"
    );
    let (mut all_passed, mut all_failed, mut all_skipped) = (0, 0, 0);
    let mut again = Vec::new();
    for Row { tier, outcome } in rows {
        let (result, counts, why) = match outcome {
            Outcome::Ran { passed, failed, second_tries, left_for_long, took, budget, complaint } => {
                again.extend(second_tries);
                all_passed += passed;
                all_failed += failed;
                let result = if outcome.is_failure(ci) { "FAILED" } else { "ran" };
                let why = match complaint {
                    Some(complaint) => complaint.clone(),
                    None if outcome.over_budget() => "over its time budget".to_owned(),
                    None if *left_for_long > 0 => format!("{left_for_long} more with --long"),
                    None => String::new(),
                };
                let (took, budget) = (took.as_secs_f64(), budget.as_secs());
                (result, format!("{passed:>6} {failed:>6} {took:>8.1} {budget:>7}"), why)
            }
            Outcome::Skipped { tests, reason, possible_here } => {
                all_skipped += tests;
                let result = if outcome.is_failure(ci) { "FAILED" } else { "skipped" };
                let note = match (possible_here, ci) {
                    (false, _) => ", impossible on this kind of machine",
                    (true, true) => ", which is a failure under CI",
                    (true, false) => "",
                };
                (result, no_counts(), format!("{tests} tests not run: {reason}{note}"))
            }
            Outcome::NoTestsYet => ("none", no_counts(), "no tests yet".to_owned()),
        };
        let line = format!("{tier:<8} {result:<8} {counts}  {why}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for name in again {
        let _ = writeln!(text, "needed a second try: {name}");
    }
    let _ = writeln!(text, "\n{all_passed} passed, {all_failed} failed, {all_skipped} skipped");
    text
}

fn no_counts() -> String {
    format!("{:>6} {:>6} {:>8} {:>7}", "-", "-", "-", "-")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Outcome, Row, render, succeeded};
    use crate::test::tiers::TierName;

    fn ran(failed: usize, seconds: u64, complaint: Option<&str>) -> Outcome {
        Outcome::Ran {
            passed: 7,
            failed,
            second_tries: vec!["emergent-e2e::local siege".to_owned()],
            left_for_long: 0,
            took: Duration::from_secs(seconds),
            budget: Duration::from_secs(60),
            complaint: complaint.map(str::to_owned),
        }
    }

    fn skipped(possible_here: bool) -> Outcome {
        Outcome::Skipped { tests: 5, reason: "needs root".to_owned(), possible_here }
    }

    #[test]
    fn success_depends_on_tests_budget_and_completeness() {
        let check = |outcome, on_a_desk, under_ci| {
            let rows = [Row { tier: TierName::Local, outcome }];
            assert_eq!((succeeded(&rows, false), succeeded(&rows, true)), (on_a_desk, under_ci), "{rows:?}");
        };
        check(ran(0, 60, None), true, true);
        check(ran(1, 1, None), false, false);
        check(ran(0, 61, None), false, false);
        check(ran(0, 1, Some("nextest ended with code 96")), false, false);
        check(skipped(true), true, false);
        check(skipped(false), true, true);
        check(Outcome::NoTestsYet, true, true);
    }

    #[test]
    fn the_sums_stand_alone_on_the_last_line() {
        let rows = [
            Row { tier: TierName::Unit, outcome: ran(2, 1, None) },
            Row { tier: TierName::Local, outcome: skipped(true) },
            Row { tier: TierName::Kvm, outcome: Outcome::NoTestsYet },
        ];
        let text = render(&rows, true);
        assert_eq!(text.lines().last(), Some("7 passed, 2 failed, 5 skipped"));
        assert!(text.contains("5 tests not run: needs root, which is a failure under CI"), "{text}");
        assert!(text.contains("no tests yet"), "{text}");
        assert!(text.contains("needed a second try: emergent-e2e::local siege\n"), "{text}");
    }
}
