//! What the audit log says of a call: enough to know what was done, and no secret.
//!
//! Contents, output and values of environment variables never get here. A command can contain a
//! secret all the same, so what looks like one is taken out.

use serde_json::{Map, Value};

use super::secrets;

/// The longest text in a summary.
const MAX_BYTES: usize = 1024;

/// How much of a text is looked at. What is beyond could only be cut off.
const READ_BYTES: usize = 8 * MAX_BYTES;

/// The most entries of a list that are shown.
const MAX_ITEMS: usize = 20;

/// What is worth knowing about a call: a few named values, without secrets.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Summary(Map<String, Value>);

impl Summary {
    /// With a text of the request: a command, a path, a pattern.
    pub(crate) fn text(mut self, name: &'static str, text: &str) -> Self {
        self.0.insert(name.to_owned(), short(text, MAX_BYTES).into());
        self
    }

    /// With a text where the request has one.
    pub(crate) fn maybe(self, name: &'static str, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.text(name, text),
            None => self,
        }
    }

    /// With a list of texts, as far as there is room.
    pub(crate) fn list<'a>(mut self, name: &'static str, texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut room = MAX_BYTES;
        let mut shown: Vec<Value> = Vec::new();
        for text in texts {
            let text = short(text, MAX_BYTES);
            if shown.len() == MAX_ITEMS || text.len() > room {
                shown.push("…".into());
                break;
            }
            room -= text.len();
            shown.push(text.into());
        }
        self.0.insert(name.to_owned(), shown.into());
        self
    }

    /// With a word that something holds, where it does.
    pub(crate) fn flag(self, name: &'static str, holds: bool) -> Self {
        if holds { self.value(name, true) } else { self }
    }

    /// With a number or a truth.
    pub(crate) fn value(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn into_map(self) -> Map<String, Value> {
        self.0
    }
}

/// A text without secrets, cut where it is too long.
fn short(text: &str, max_bytes: usize) -> String {
    let mut shown = secrets::hidden(cut(text, READ_BYTES));
    if shown.len() > max_bytes || text.len() > READ_BYTES {
        shown.truncate(cut(&shown, max_bytes - '…'.len_utf8()).len());
        shown.push('…');
    }
    shown
}

/// The beginning of a text, whole characters only.
fn cut(text: &str, max_bytes: usize) -> &str {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ones_are_cut_after_secrets_are_gone() {
        let long = format!("{} https://me:hunter2@x", "ä".repeat(MAX_BYTES / 2 - 8));
        let summary = short(&long, MAX_BYTES);
        assert!(
            summary.len() <= MAX_BYTES && summary.ends_with('…') && !summary.contains("hunter2"),
            "{summary}"
        );
        let huge = short(&"x".repeat(1 << 20), MAX_BYTES);
        assert_eq!(huge.len(), MAX_BYTES);
        let wide = short(&"🙂".repeat(MAX_BYTES), MAX_BYTES);
        assert!(wide.len() <= MAX_BYTES && wide.ends_with('…'));
    }

    #[test]
    fn lists_are_bounded() {
        let many: Vec<String> = (0..1000).map(|number| format!("file-{number}")).collect();
        let summary = Summary::default().list("paths", many.iter().map(String::as_str)).into_map();
        assert_eq!(summary["paths"].as_array().unwrap().len(), MAX_ITEMS + 1);
        let long = "x".repeat(600);
        let summary = Summary::default().list("paths", [long.as_str(); 5]).into_map();
        assert_eq!(summary["paths"], serde_json::json!([long, "…"]));
    }
}
