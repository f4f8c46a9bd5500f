//! One thing that was looked at.

use serde::Serialize;

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// Something is lost without it.
    Warning,
    /// Workspaces cannot be made without it.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    pub(super) name: &'static str,
    pub(super) level: Level,
    /// What is there.
    pub(super) found: String,
    /// What its absence costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cost: Option<String>,
    /// How to get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, level: Level::Ok, found: one_line(found.into()), cost: None, remedy: None }
    }

    pub(super) fn warning(name: &'static str, found: impl Into<String>, cost: &str, remedy: &str) -> Self {
        let (cost, remedy) = (Some(cost.to_owned()), Some(remedy.to_owned()));
        Self { name, level: Level::Warning, found: one_line(found.into()), cost, remedy }
    }

    pub(super) fn missing(name: &'static str, found: impl Into<String>, cost: &str, remedy: &str) -> Self {
        Self { level: Level::Missing, ..Self::warning(name, found, cost, remedy) }
    }

    /// A line, and below it what to do about it.
    pub(super) fn to_text(&self) -> String {
        let mark = match self.level {
            Level::Ok => '✓',
            Level::Warning => '!',
            Level::Missing => '✗',
        };
        let mut text = format!("{mark} {}: {}\n", self.name, self.found);
        for (label, line) in [("costs", &self.cost), ("to get it", &self.remedy)] {
            if let Some(line) = line {
                text.push_str(&format!("    {label}: {line}\n"));
            }
        }
        text
    }
}

/// What programs of the host say may have several.
fn one_line(text: String) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_a_line_with_its_cost_and_its_remedy() {
        let finding = Finding::warning("x", "one\n  two\n", "c", "r");
        assert_eq!(finding.to_text(), "! x: one; two\n    costs: c\n    to get it: r\n");
    }
}
