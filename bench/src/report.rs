//! The page of results.

use std::fmt::Write;

use crate::figure::{Figure, Measured, Target, ratio};
use crate::machine::Machine;
use crate::stats::Spread;

/// One line of the table.
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
pub(crate) struct Breakdown {
    pub(crate) title: String,
    pub(crate) parts: Vec<(String, Spread)>,
}

/// What one measurement found.
pub(crate) struct Section {
    /// How it was measured, in a sentence or two.
    pub(crate) method: &'static str,
    pub(crate) rows: Vec<Row>,
    pub(crate) breakdowns: Vec<Breakdown>,
}

/// All that was found.
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) sections: Vec<Section>,
}

const HEADINGS: [&str; 9] =
    ["what", "ours p50", "p95", "p99", "bare p50", "p95", "ratio", "target", "verdict"];

impl Report {
    /// How many targets are reached, and how many there are.
    pub(crate) fn verdict(&self) -> (usize, usize) {
        let verdicts = || self.sections.iter().flat_map(|section| &section.rows).filter_map(Row::is_met);
        (verdicts().filter(|met| *met).count(), verdicts().count())
    }

    /// The page, as Markdown.
    pub(crate) fn to_markdown(&self) -> String {
        let (met, of) = self.verdict();
        let mut page = String::from("# Results\n\n");
        page.push_str(
            "Written by `cargo xtask bench`. Every figure was measured in one run on the machine below, the\n\
             product and the bare alternative in turn. A ratio is our median over the bare one. Where a row is\n\
             a single quantity, it stands in the first column.\n\n",
        );
        let _ = writeln!(page, "**{met} of {of} targets met.**\n");
        for (name, value) in self.machine.facts() {
            let _ = writeln!(page, "- {name}: {value}");
        }
        page.push('\n');
        let rows: Vec<_> = self.sections.iter().flat_map(|section| &section.rows).map(Row::cells).collect();
        page.push_str(&table(&HEADINGS, &rows));

        page.push_str("\n## How it was measured\n\n");
        for section in &self.sections {
            let _ = writeln!(page, "- {}", section.method);
        }
        for breakdown in self.sections.iter().flat_map(|section| &section.breakdowns) {
            let _ = writeln!(page, "\n## {}\n", breakdown.title);
            let rows: Vec<_> = breakdown
                .parts
                .iter()
                .map(|(part, spread)| {
                    let time = |time| Figure::Time(time).to_string();
                    vec![part.clone(), time(spread.p50), time(spread.p95), spread.count.to_string()]
                })
                .collect();
            page.push_str(&table(&["step", "p50", "p95", "samples"], &rows));
        }
        page
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
}
