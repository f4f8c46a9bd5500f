//! The page of results.

use std::borrow::Cow;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::figure::{Figure, Measured, Target, ratio};
use crate::machine::Fact;
use crate::stats::Spread;

/// One line of the table.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    what: String,
    ours: Measured,
    bare: Option<Measured>,
    target: Option<Target>,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, ours: impl Into<Measured>) -> Self {
        Self { what: what.into(), ours: ours.into(), bare: None, target: None }
    }

    /// What the same costs without the product.
    pub(crate) fn beside(mut self, bare: impl Into<Measured>) -> Self {
        self.bare = Some(bare.into());
        self
    }

    pub(crate) fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    fn is_met(&self) -> Option<bool> {
        self.target.map(|target| target.is_met(&self.ours, self.bare.as_ref()))
    }

    fn cells(&self) -> Vec<String> {
        let shown = |figure: Option<Figure>| figure.map_or_else(String::new, |figure| figure.to_string());
        vec![
            self.what.clone(),
            self.ours.p50().to_string(),
            shown(self.ours.p95()),
            shown(self.ours.p99()),
            shown(self.bare.map(|bare| bare.p50())),
            shown(self.bare.and_then(|bare| bare.p95())),
            ratio(&self.ours, self.bare.as_ref()).map_or_else(String::new, shown_ratio),
            self.target.map_or_else(|| "reported".to_owned(), |target| target.to_string()),
            match self.is_met() {
                Some(true) => "met".to_owned(),
                Some(false) => "**missed**".to_owned(),
                None => String::new(),
            },
        ]
    }
}

/// Three significant digits for what is a small part of the other.
fn shown_ratio(ratio: f64) -> String {
    if ratio < 0.1 { format!("{ratio:.3} ×") } else { format!("{ratio:.2} ×") }
}

/// Where the time of one row goes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Breakdown {
    pub(crate) title: String,
    pub(crate) parts: Vec<(String, Spread)>,
}

/// What one measurement found.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Section {
    /// How it was measured, in a sentence or two.
    pub(crate) method: Cow<'static, str>,
    pub(crate) rows: Vec<Row>,
    pub(crate) breakdowns: Vec<Breakdown>,
}

impl Section {
    pub(crate) fn new(method: &'static str, rows: Vec<Row>) -> Self {
        Self { method: Cow::Borrowed(method), rows, breakdowns: Vec::new() }
    }

    pub(crate) fn with_breakdowns(mut self, breakdowns: Vec<Breakdown>) -> Self {
        self.breakdowns = breakdowns;
        self
    }
}

/// A measurement's findings, and where and when they were made.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) facts: Vec<Fact>,
    pub(crate) section: Section,
}

/// All that was found, by name of the measurement.
pub(crate) struct Report {
    pub(crate) outcomes: Vec<(String, Outcome)>,
}

const HEADINGS: [&str; 9] =
    ["what", "ours p50", "p95", "p99", "bare p50", "p95", "ratio", "target", "verdict"];

impl Report {
    fn sections(&self) -> impl Iterator<Item = &Section> {
        self.outcomes.iter().map(|(_, outcome)| &outcome.section)
    }

    /// How many targets are reached, and how many there are.
    pub(crate) fn verdict(&self) -> (usize, usize) {
        let verdicts = || self.sections().flat_map(|section| &section.rows).filter_map(Row::is_met);
        (verdicts().filter(|met| *met).count(), verdicts().count())
    }

    /// What is true of every run that the page shows.
    fn common_facts(&self) -> Vec<&Fact> {
        let Some(((_, first), others)) = self.outcomes.split_first() else { return Vec::new() };
        let everywhere = |fact: &&Fact| others.iter().all(|(_, other)| other.facts.contains(fact));
        first.facts.iter().filter(everywhere).collect()
    }

    /// The page, as Markdown.
    pub(crate) fn to_markdown(&self) -> String {
        let (met, of) = self.verdict();
        let mut page = String::from("# Results\n\n");
        page.push_str(
            "Written by `cargo xtask bench`, from the runs in `results/`. The figures of a table were measured in\n\
             one run, the product and the bare alternative in turn. A ratio is our median over the bare one. Where\n\
             a row is a single quantity, it stands in the first column.\n\n",
        );
        let _ = writeln!(page, "**{met} of {of} targets met.**\n");
        let common = self.common_facts();
        for fact in &common {
            let _ = writeln!(page, "- {fact}");
        }
        for (name, outcome) in &self.outcomes {
            let section = &outcome.section;
            let _ = writeln!(page, "\n## {name}\n");
            page.push_str(&table(&HEADINGS, &section.rows.iter().map(Row::cells).collect::<Vec<_>>()));
            let _ = writeln!(page, "\n{}", section.method);
            let own: Vec<_> =
                outcome.facts.iter().filter(|fact| !common.contains(fact)).map(Fact::to_string).collect();
            if !own.is_empty() {
                let _ = writeln!(page, "\n{}.", own.join("; "));
            }
            for breakdown in &section.breakdowns {
                let _ = writeln!(page, "\n### {}\n", breakdown.title);
                page.push_str(&breakdown.to_markdown());
            }
        }
        page
    }
}

impl Breakdown {
    fn to_markdown(&self) -> String {
        let time = |time| Figure::Time(time).to_string();
        let rows: Vec<_> = self
            .parts
            .iter()
            .map(|(part, spread)| {
                vec![part.clone(), time(spread.p50), time(spread.p95), spread.count.to_string()]
            })
            .collect();
        table(&["step", "p50", "p95", "samples"], &rows)
    }
}

/// A table whose columns line up in the source too.
fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(headings.get(column).map(|heading| heading.chars().count())).max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |cells: &[String]| {
        let mut line = String::from("|");
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(line, " {cell:<width$} |");
        }
        line.push('\n');
        line
    };
    let mut text = line(&headings.iter().map(|heading| (*heading).to_owned()).collect::<Vec<_>>());
    // Numbers are compared from their right end.
    let rules: Vec<String> = widths
        .iter()
        .enumerate()
        .map(
            |(column, width)| {
                if column == 0 { "-".repeat(*width) } else { format!("{}:", "-".repeat(width - 1)) }
            },
        )
        .collect();
    text.push_str(&line(&rules));
    for row in rows {
        text.push_str(&line(row));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["µs".to_owned(), "1".to_owned()], vec!["longer".to_owned(), "22222".to_owned()]];
        let expect = "| a      | b     |\n| ------ | ----: |\n| µs     | 1     |\n| longer | 22222 |\n";
        assert_eq!(table(&["a", "b"], &rows), expect);
    }

    #[test]
    fn a_row_says_whether_its_target_is_met() {
        let time = |millis| Figure::Time(Duration::from_millis(millis));
        let check = |row: Row, expect: [&str; 9]| assert_eq!(row.cells(), expect);
        check(
            Row::new("slow", time(30)).beside(time(10)).target(Target::Ratio(2.0)),
            ["slow", "30.0 ms", "", "", "10.0 ms", "", "3.00 ×", "≤ 2 ×", "**missed**"],
        );
        check(Row::new("told", Figure::Count(3)), ["told", "3", "", "", "", "", "", "reported", ""]);
    }

    #[test]
    fn what_differs_between_runs_stands_with_each() {
        let outcome = |commit: &str| Outcome {
            facts: vec![Fact::new("cores", "2"), Fact::new("commit", commit)],
            section: Section::new("**method**", vec![Row::new("told", Figure::Count(3))]),
        };
        let outcomes = vec![("one".to_owned(), outcome("aaa")), ("two".to_owned(), outcome("bbb"))];
        let page = Report { outcomes }.to_markdown();
        assert_eq!(page.matches("cores: 2").count(), 1, "{page}");
        assert!(page.contains("\ncommit: aaa.\n") && page.contains("\ncommit: bbb.\n"), "{page}");
    }

    #[test]
    fn an_outcome_is_read_as_it_was_written() {
        let spread = Spread {
            count: 2,
            p50: Duration::from_micros(1500),
            p95: Duration::from_millis(2),
            p99: Duration::from_secs(3),
        };
        let row = Row::new("slow", spread).beside(Figure::Bytes(7)).target(Target::Ratio(1.3));
        let breakdowns = vec![Breakdown { title: "steps".to_owned(), parts: vec![("a".to_owned(), spread)] }];
        let section = Section::new("**method**", vec![row]).with_breakdowns(breakdowns);
        let outcome = Outcome { facts: vec![Fact::new("cores", "2")], section };
        let written = serde_json::to_string(&outcome).unwrap();
        let read: Outcome = serde_json::from_str(&written).unwrap();
        let page = |outcome| Report { outcomes: vec![("x".to_owned(), outcome)] }.to_markdown();
        assert_eq!(page(read), page(outcome));
        assert!(written.contains("\"p50_ns\":1500000"), "{written}");
    }
}
