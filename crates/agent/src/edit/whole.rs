//! Edits of what is in memory, for tests and fuzzing: the same code, one block.

use crate::error::CallError;

use super::apply::{self, Change, Changes, Edit, Refusal, Rule, Stopped};
use super::closest::Closest;
use super::content::Content;
use super::diff::{Diff, Differ};

/// What an edit does to a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// In order, not overlapping, at least one.
    pub changes: Vec<Change>,
    /// How the text was found.
    pub rule: Rule,
}

impl Applied {
    /// The new content.
    pub fn new_content(&self, content: &[u8]) -> Vec<u8> {
        let mut new = Vec::new();
        let mut done = 0;
        let index = super::content::index;
        for Change { range, text } in &self.changes {
            new.extend_from_slice(content.get(done..index(range.start)).unwrap_or_default());
            new.extend_from_slice(text);
            done = index(range.end);
        }
        new.extend_from_slice(content.get(done..).unwrap_or_default());
        new
    }
}

impl<C> Changes<C> for Vec<Change> {
    fn change(&mut self, _: &mut C, change: Change) -> Result<(), CallError> {
        self.push(change);
        Ok(())
    }
}

/// What the edit does to the content.
pub fn apply(content: &[u8], edit: Edit<'_>) -> Result<Applied, Refusal> {
    apply_to(&mut { content }, edit)
}

/// What the edit does to a content that can be read.
pub(super) fn apply_to<C: Content>(content: &mut C, edit: Edit<'_>) -> Result<Applied, Refusal> {
    let mut changes = Vec::new();
    match apply::apply(content, edit, &mut changes) {
        Ok(rule) => Ok(Applied { changes, rule }),
        Err(Stopped::Refused(refusal)) => Err(refusal),
        // What is in memory can always be read.
        Err(Stopped::Failed(_)) => Err(Refusal::NoMatch { closest: Closest::default() }),
    }
}

/// The difference that these changes make to a content.
pub fn diff(content: &[u8], changes: &[Change]) -> Diff {
    diff_of(&mut { content }, changes)
}

/// The difference that these changes make to a content that can be read.
pub(super) fn diff_of<C: Content>(content: &mut C, changes: &[Change]) -> Diff {
    let mut differ = Differ::new();
    let (mut newlines, mut counted) = (0, 0);
    for change in changes {
        newlines += content.newlines(counted..change.range.start, u64::MAX).unwrap_or_default();
        counted = change.range.start;
        let _ = differ.add(content, change, newlines);
    }
    differ.finish(content).unwrap_or_default()
}
