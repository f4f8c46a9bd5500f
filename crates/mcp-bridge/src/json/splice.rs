use super::{RawJson, Span};

/// Replaces bytes at known places of a text and keeps all others.
///
/// Places must not overlap. Two insertions at one place come out in the order they were made.
pub(crate) struct Splice<'a> {
    text: &'a str,
    edits: Vec<(Span, String)>,
}

impl<'a> Splice<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, edits: Vec::new() }
    }

    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    pub(crate) fn replace(&mut self, at: Span, with: impl Into<String>) {
        self.edits.push((at, with.into()));
    }

    pub(crate) fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(at..at, text);
    }

    pub(crate) fn finish(mut self) -> RawJson {
        self.edits.sort_by_key(|(at, _)| at.start);
        let grown: usize = self.edits.iter().map(|(_, with)| with.len()).sum();
        let mut out = String::with_capacity(self.text.len() + grown);
        let mut done = 0;
        for (at, with) in &self.edits {
            out.push_str(&self.text[done..at.start]);
            out.push_str(with);
            done = at.end;
        }
        out.push_str(&self.text[done..]);
        RawJson::known(out)
    }
}
