//! Figures of each running workspace, in the text format of Prometheus.
//!
//! Written from what there is at the moment: the recorder keeps every series that it has ever seen, and these go
//! with their workspace.

use std::fmt::{Display, Write};

use emergent_workspaces::RunningUsage;

use super::names;

/// So many workspaces have figures of their own: each is six series to whoever collects them.
const MOST: usize = 1000;

/// One figure of a workspace; `None` where it is not known.
type Read = fn(&RunningUsage) -> Option<f64>;

/// Every figure: its name, what it says, and where it is found.
const FIGURES: [(&str, &str, Read); 6] = [
    (names::WORKSPACE_CPU, "Processors that a running workspace uses.", |one| one.recent?.cpu_cores),
    (names::WORKSPACE_CPU_LIMIT, "Processors that a running workspace may use.", |one| {
        Some(f64::from(one.limits.cpu.millis()) / 1000.0)
    }),
    (names::WORKSPACE_MEMORY, "Memory that a running workspace uses.", |one| {
        one.recent?.usage.memory_bytes.map(|bytes| bytes as f64)
    }),
    (names::WORKSPACE_MEMORY_LIMIT, "Memory that a running workspace may use.", |one| {
        Some(one.limits.memory.bytes() as f64)
    }),
    (names::WORKSPACE_DISK, "Disk that a running workspace uses.", |one| {
        one.recent?.usage.disk_bytes.map(|bytes| bytes as f64)
    }),
    (names::WORKSPACE_DISK_LIMIT, "Disk that a running workspace may use.", |one| {
        Some(one.limits.disk.bytes() as f64)
    }),
];

/// Adds the figures to those of the recorder. Of too many workspaces the oldest have some.
pub(super) fn write(mut running: Vec<RunningUsage>, text: &mut String) {
    running.sort_unstable_by_key(|one| one.id);
    let left_out = running.len().saturating_sub(MOST);
    running.truncate(MOST);
    for (name, help, read) in FIGURES {
        head(text, name, help);
        for one in &running {
            if let Some(value) = read(one) {
                let labels = [("workspace", one.id.to_string()), ("provider", one.provider.to_string())];
                line(text, name, &labels, value);
            }
        }
    }
    head(text, names::WORKSPACES_LEFT_OUT, "Running workspaces without figures of their own.");
    line(text, names::WORKSPACES_LEFT_OUT, &[], left_out);
}

fn head(text: &mut String, name: &str, help: &str) {
    let help = help.replace('\\', "\\\\").replace('\n', "\\n");
    // Writing to a string does not fail.
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n");
}

fn line(text: &mut String, name: &str, labels: &[(&str, String)], value: impl Display) {
    text.push_str(name);
    for (index, (label, content)) in labels.iter().enumerate() {
        let begin = if index == 0 { '{' } else { ',' };
        let _ = write!(text, "{begin}{label}=\"{}\"", escaped(content));
    }
    let end = if labels.is_empty() { "" } else { "}" };
    let _ = writeln!(text, "{end} {value}");
}

/// A label's content, as it stands between quotes.
fn escaped(content: &str) -> String {
    content.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use emergent_types::{ProviderKind, ResourceLimits, WorkspaceId};
    use emergent_workspaces::Sample;

    use super::*;

    fn running(recent: Option<Sample>) -> RunningUsage {
        RunningUsage {
            id: WorkspaceId::generate(),
            provider: ProviderKind::Local,
            limits: ResourceLimits::WORKSPACE_DEFAULT,
            recent,
        }
    }

    fn written(running: Vec<RunningUsage>) -> String {
        let mut text = String::new();
        write(running, &mut text);
        text
    }

    #[test]
    fn each_family_stands_together_under_its_head() {
        let mut sample =
            Sample { at: emergent_store::now(), usage: Default::default(), cpu_cores: Some(0.5) };
        sample.usage.memory_bytes = Some(5 << 30);
        let (known, unknown) = (running(Some(sample)), running(None));
        let text = written(vec![known, unknown]);
        let mut family = "";
        let mut heads = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                family = rest.strip_suffix(" gauge").unwrap();
                heads.push(family);
            } else if !line.starts_with("# HELP ") {
                let (name, value) = line.rsplit_once(' ').unwrap();
                assert_eq!(name.split('{').next(), Some(family), "{line}");
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
        assert_eq!((heads.len(), text.matches("# HELP ").count()), (7, 7), "{text}");
        let labels = |one: &RunningUsage| format!("{{workspace=\"{}\",provider=\"local\"}}", one.id);
        for expect in [
            format!("emergent_workspace_cpu_cores{} 0.5\n", labels(&known)),
            format!("emergent_workspace_memory_bytes{} 5368709120\n", labels(&known)),
            format!("emergent_workspace_cpu_limit_cores{} 2\n", labels(&unknown)),
            "emergent_workspaces_left_out 0\n".to_owned(),
        ] {
            assert!(text.contains(&expect), "{expect} is not in {text}");
        }
        let unsaid = format!("emergent_workspace_memory_bytes{}", labels(&unknown));
        assert!(!text.contains(&unsaid), "what is not known is not zero: {text}");
        assert!(!text.contains("emergent_workspace_disk_bytes{"), "{text}");
    }

    #[test]
    fn there_are_never_more_than_so_many() {
        let all: Vec<_> = (0..MOST + 7).map(|_| running(None)).collect();
        let oldest = all.iter().map(|one| one.id).min().unwrap().to_string();
        let text = written(all);
        let lines = text.lines().filter(|line| line.starts_with("emergent_workspace_disk_limit_bytes{"));
        assert_eq!(lines.count(), MOST);
        assert!(text.contains(&oldest) && text.contains("emergent_workspaces_left_out 7\n"));
    }

    #[test]
    fn labels_are_escaped() {
        let mut text = String::new();
        line(&mut text, "a", &[("b", "c\\d\"e\nf".to_owned()), ("g", String::new())], 1.5);
        assert_eq!(text, "a{b=\"c\\\\d\\\"e\\nf\",g=\"\"} 1.5\n");
    }
}
