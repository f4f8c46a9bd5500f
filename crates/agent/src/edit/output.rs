//! What an edit makes of a file: the new content beside it, and the diff.

use std::ops::Range;
use std::path::Path;

use crate::error::CallError;
use crate::files::{NewFile, Replacement};

use super::NEW_FILE_MODE;
use super::apply::{Change, Changes, Edit};
use super::content::Content;
use super::diff::{Diff, Differ};

/// Written at once: pieces may be tiny and many.
const WRITE_BYTES: usize = 256 << 10;

/// A new content under way.
pub(super) struct Output<'a> {
    target: &'a Path,
    edit: Edit<'a>,
    /// There from the first change on.
    replacement: Option<Replacement>,
    buffer: Vec<u8>,
    /// How far the old content is dealt with, and how many line ends that were.
    done: u64,
    newlines: u64,
    replacements: u64,
    differ: Differ,
}

/// A new content that is complete.
pub(super) struct Written {
    pub(super) replacement: Replacement,
    pub(super) replacements: u64,
    pub(super) diff: Diff,
}

impl<'a> Output<'a> {
    pub(super) fn new(target: &'a Path, edit: Edit<'a>) -> Self {
        Self {
            target,
            edit,
            replacement: None,
            buffer: Vec::new(),
            done: 0,
            newlines: 0,
            replacements: 0,
            differ: Differ::new(),
        }
    }

    /// Copies the rest.
    pub(super) fn finish<C: Content>(mut self, content: &mut C) -> Result<Written, CallError> {
        let end = content.length();
        let mut replacement = self.begin(end)?;
        self.copy(content, self.done..end, &mut replacement)?;
        replacement.append(&self.buffer)?;
        let diff = self.differ.finish(content)?;
        Ok(Written { replacement, replacements: self.replacements, diff })
    }

    fn begin(&mut self, length: u64) -> Result<Replacement, CallError> {
        if let Some(replacement) = self.replacement.take() {
            return Ok(replacement);
        }
        // How often every place is, is not known yet; a single one is all there is.
        let (old, new) = (self.edit.old.len() as u64, self.edit.new.len() as u64);
        let size_hint = if self.edit.replace_all { 0 } else { (length + new).saturating_sub(old) };
        Replacement::begin(self.target, &NewFile { mode: NEW_FILE_MODE, owner: None, size_hint })
    }

    fn copy<C: Content>(
        &mut self,
        content: &mut C,
        range: Range<u64>,
        replacement: &mut Replacement,
    ) -> Result<(), CallError> {
        let mut at = range.start;
        while at < range.end {
            let piece = content.piece(at..range.end)?;
            self.newlines += memchr::memchr_iter(b'\n', piece).count() as u64;
            at += piece.len() as u64;
            append(&mut self.buffer, piece, replacement)?;
        }
        Ok(())
    }
}

impl<C: Content> Changes<C> for Output<'_> {
    fn change(&mut self, content: &mut C, change: Change) -> Result<(), CallError> {
        let mut replacement = self.begin(content.length())?;
        self.copy(content, self.done..change.range.start, &mut replacement)?;
        self.differ.add(content, &change, self.newlines)?;
        append(&mut self.buffer, &change.text, &mut replacement)?;
        self.newlines += content.newlines(change.range.clone(), u64::MAX)?;
        self.done = change.range.end;
        self.replacements += 1;
        self.replacement = Some(replacement);
        Ok(())
    }
}

fn append(buffer: &mut Vec<u8>, piece: &[u8], replacement: &mut Replacement) -> Result<(), CallError> {
    if buffer.len() + piece.len() > WRITE_BYTES {
        replacement.append(buffer)?;
        buffer.clear();
    }
    if piece.len() > WRITE_BYTES {
        return replacement.append(piece);
    }
    buffer.extend_from_slice(piece);
    Ok(())
}
