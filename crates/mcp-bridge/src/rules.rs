//! Which tools of a server are offered. This is the one place that knows: lists are filtered and
//! calls are refused by the bridge, whoever asks.

use std::collections::BTreeSet;

use serde_json::value::RawValue;

use crate::handshake::local_error;
use crate::json::{Kind, Message, Outcome, RawJson, folded_names, pick, span_of, text_of};

/// The code that refuses a call of a tool that is not offered: to a client it does not exist.
pub(crate) const NOT_OFFERED: i64 = -32602;

/// What a call is told that names no tool.
pub(crate) const UNNAMED: &str = "params.name is not the name of a tool";

/// The tools that are offered, by their exact names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolRules {
    /// Only these, if there is a list.
    pub allow: Option<BTreeSet<String>>,
    /// Not these, even if they are allowed.
    pub deny: BTreeSet<String>,
}

impl ToolRules {
    /// Whether a tool is offered.
    pub fn offers(&self, tool: &str) -> bool {
        !self.deny.contains(tool) && self.allow.as_ref().is_none_or(|allow| allow.contains(tool))
    }

    /// What a caller of a tool is told that is not offered.
    pub(crate) fn refusal(tool: &str) -> String {
        format!("the tool {tool:?} is not offered here")
    }

    /// The answer to `tools/list` without the tools that are not offered. The others keep their bytes. Of a list
    /// that cannot be read, or that readers could read in two ways, nothing is passed on.
    pub(crate) fn filter(&self, answer: RawJson) -> RawJson {
        if self.allow.is_none() && self.deny.is_empty() {
            return answer;
        }
        let Ok(message) = Message::read(answer.clone()) else { return answer };
        let Kind::Response { id, outcome: Outcome::Result(result) } = &message.kind else { return answer };
        let Some((list, tools)) = tools_of(message.at(result)) else {
            return local_error(message.at(id), -32603, "the server's list of tools cannot be read");
        };
        let kept: Vec<&str> = tools
            .iter()
            .map(|tool| tool.get())
            // A tool without a name cannot be called, so nothing is lost with it.
            .filter(|tool| name_of(tool).is_some_and(|name| self.offers(&name)))
            .collect();
        if kept.len() == tools.len() {
            return answer;
        }
        message.with([(span_of(message.text.as_str(), list), format!("[{}]", kept.join(",")))])
    }
}

/// The list in a result, and the tools in it.
fn tools_of(result: &str) -> Option<(&str, Vec<&RawValue>)> {
    let names = folded_names(result).ok()?;
    let [list] = pick(result, ["tools"]).ok()?;
    if names.iter().filter(|(folded, _)| folded == "tools").count() != 1 {
        return None;
    }
    let list = list?;
    Some((list, serde_json::from_str(list).ok()?))
}

/// The name of a tool in a list.
pub(crate) fn name_of(tool: &str) -> Option<String> {
    pick(tool, ["name"]).ok()?[0].and_then(text_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn denying_beats_allowing() {
        let rules = ToolRules { allow: Some(names(&["a", "b"])), deny: names(&["b"]) };
        assert!(rules.offers("a") && !rules.offers("b") && !rules.offers("c"));
        assert!(ToolRules::default().offers("anything"));
        assert!(!ToolRules { allow: Some(BTreeSet::new()), ..ToolRules::default() }.offers("a"));
    }

    #[test]
    fn kept_tools_keep_their_bytes() {
        let rules = ToolRules { allow: None, deny: names(&["b", "d"]) };
        let sent = r#"{"id":1,"result":{"tools" : [ {"name":"a","x":1.0}, {"name":"b"} ,{ "n\u0061me":"c" },{"name":"\u0064"}],"nextCursor":"n"}}"#;
        let kept =
            r#"{"id":1,"result":{"tools" : [{"name":"a","x":1.0},{ "n\u0061me":"c" }],"nextCursor":"n"}}"#;
        assert_eq!(rules.filter(RawJson::known(sent.into())).as_str(), kept);
        assert_eq!(rules.filter(RawJson::known(kept.into())).as_str(), kept);
        for odd in [
            r#"{"tools":[],"tools":[{"name":"b"}]}"#,
            r#"{"tools":[],"Tools":[{"name":"b"}]}"#,
            r#"{"tools":{"b":{"name":"b"}}}"#,
            r#"{"TOOLS":[{"name":"b"}]}"#,
            r#"[{"name":"b"}]"#,
        ] {
            let answer = rules.filter(RawJson::known(format!(r#"{{"id":1,"result":{odd}}}"#)));
            assert!(answer.as_str().contains("cannot be read") && !answer.as_str().contains("name"), "{odd}");
        }
        let error = r#"{"id":1,"error":{"code":1}}"#;
        assert_eq!(rules.filter(RawJson::known(error.into())).as_str(), error);
    }
}
