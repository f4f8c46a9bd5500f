//! Which tools of a server are offered. This is the one place that knows: lists are filtered and
//! calls are refused by the bridge, whoever asks.

use std::collections::BTreeSet;

use serde_json::value::RawValue;

use crate::json::{Kind, Message, Outcome, RawJson, pick, span_of, text_of};

/// The code that refuses a call of a tool that is not offered: to a client it does not exist.
pub(crate) const NOT_OFFERED: i64 = -32602;

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

    /// The answer to `tools/list` without the tools that are not offered. The others keep their bytes.
    pub(crate) fn filter(&self, answer: RawJson) -> RawJson {
        if self.allow.is_none() && self.deny.is_empty() {
            return answer;
        }
        let Ok(message) = Message::read(answer.clone()) else { return answer };
        let Kind::Response { outcome: Outcome::Result(result), .. } = &message.kind else { return answer };
        let Ok([Some(list)]) = pick(message.at(result), ["tools"]) else { return answer };
        let Ok(tools) = serde_json::from_str::<Vec<&RawValue>>(list) else { return answer };
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
        let error = r#"{"id":1,"error":{"code":1}}"#;
        assert_eq!(rules.filter(RawJson::known(error.into())).as_str(), error);
    }
}
