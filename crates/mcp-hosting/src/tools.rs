//! Which tools of a server may be used.

use std::collections::{BTreeMap, BTreeSet};

use emergent_store::McpServerRow;
use serde_json::value::RawValue;

/// Which tools of a server may be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFilter {
    allow: Option<BTreeSet<String>>,
    deny: BTreeSet<String>,
}

/// What `tools/list` answers, as far as it is looked at.
#[derive(serde::Deserialize)]
struct Tool {
    name: String,
}

impl ToolFilter {
    /// What a registration says.
    pub(crate) fn of(row: &McpServerRow) -> Self {
        Self {
            allow: row.tools_allow.as_ref().map(|names| names.iter().cloned().collect()),
            deny: row.tools_deny.iter().cloned().collect(),
        }
    }

    /// Whether all may.
    pub fn is_open(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }

    /// Whether this one may.
    pub fn allows(&self, tool: &str) -> bool {
        !self.deny.contains(tool) && self.allow.as_ref().is_none_or(|allow| allow.contains(tool))
    }

    /// The result of `tools/list` without those that may not. What is left keeps its bytes. `None` where it
    /// is no such result, which nobody should see then.
    pub fn filter_list(&self, result: &str) -> Option<String> {
        let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(result).ok()?;
        let tools: Vec<Box<RawValue>> = serde_json::from_str(members.get("tools")?.get()).ok()?;
        let mut left = Vec::new();
        for tool in tools {
            let name = serde_json::from_str::<Tool>(tool.get()).ok()?.name;
            if self.allows(&name) {
                left.push(tool);
            }
        }
        members.insert("tools".to_owned(), serde_json::value::to_raw_value(&left).ok()?);
        serde_json::to_string(&members).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(allow: Option<&[&str]>, deny: &[&str]) -> ToolFilter {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        ToolFilter { allow: allow.map(set), deny: set(deny) }
    }

    #[test]
    fn what_is_denied_is_not_allowed() {
        assert!(filter(None, &[]).is_open());
        let some = filter(Some(&["read", "write"]), &["write"]);
        assert!(!some.is_open());
        assert!(some.allows("read"));
        assert!(!some.allows("write"));
        assert!(!some.allows("erase"));
        assert!(!filter(Some(&[]), &[]).allows("read"));
        assert!(filter(None, &["write"]).allows("read"));
    }

    #[test]
    fn a_list_keeps_the_bytes_of_what_is_left() {
        let result = r#"{"tools":[{"name":"a","x":1.0},{"name":"b"}],"nextCursor":"n"}"#;
        let some = filter(None, &["b"]);
        assert_eq!(
            some.filter_list(result).as_deref(),
            Some(r#"{"nextCursor":"n","tools":[{"name":"a","x":1.0}]}"#)
        );
        assert_eq!(some.filter_list("{}"), None);
        assert_eq!(some.filter_list(r#"{"tools":[{}]}"#), None);
    }
}
