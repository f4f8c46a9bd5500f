//! What an edit changed, as a unified diff.
//!
//! Only the lines around the changes are compared, never the whole file, so that a diff costs
//! what was changed and not what is there.

use std::ops::Range;
use std::time::{Duration, Instant};

use similar::Algorithm;
use similar::algorithms::{DiffHook, diff_slices_deadline};

use crate::error::CallError;

use super::apply::Change;
use super::content::Content;

/// The most that is shown.
pub const DIFF_BYTES: usize = 64 << 10;

/// Lines shown around a change.
const CONTEXT: u64 = 3;

/// Finding the smallest difference can take quadratic time; after this it need not be the
/// smallest.
const EFFORT: Duration = Duration::from_millis(50);

/// More is not compared line by line: all lines of it count as changed.
const BLOCK_BYTES: u64 = 2 << 20;

const NO_LINE_END: &str = "\\ No newline at end of file\n";

/// A diff and what it says in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diff {
    /// Hunks, without the names of the files.
    pub text: String,
    /// Hunks are missing.
    pub truncated: bool,
    /// Lines that were changed, added or removed.
    pub lines_changed: u64,
}

/// Makes a diff of changes that come one by one, in order.
pub(super) struct Differ {
    deadline: Instant,
    block: Option<Block>,
    writer: Writer,
}

/// Lines that changes touch. Changes that share lines are in one.
struct Block {
    /// 0-based, of the first.
    line: u64,
    range: Range<u64>,
    /// How far the old content is in the new text.
    copied: u64,
    new: NewText,
}

/// What stands there instead: all of it, or its beginning.
#[derive(Default)]
struct NewText {
    bytes: Vec<u8>,
    length: u64,
    newlines: u64,
    is_open: bool,
}

impl NewText {
    fn of(bytes: Vec<u8>) -> Self {
        let mut text = Self::default();
        text.count(&bytes);
        text.bytes = bytes;
        text
    }

    fn push(&mut self, bytes: &[u8]) {
        self.count(bytes);
        if self.length <= BLOCK_BYTES {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn count(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.newlines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        self.is_open = bytes.last().map_or(self.is_open, |last| *last != b'\n');
    }

    fn copy<C: Content>(&mut self, content: &mut C, range: Range<u64>) -> Result<(), CallError> {
        let mut at = range.start;
        while at < range.end {
            let piece = content.piece(at..range.end)?;
            self.push(piece);
            at += piece.len() as u64;
        }
        Ok(())
    }

    fn lines(&self) -> u64 {
        self.newlines + u64::from(self.is_open)
    }
}

/// Lines that are gone, and those that stand there instead.
struct Run {
    /// 0-based, of the first line that is gone.
    line: u64,
    gone: Range<u64>,
    new: NewText,
}

impl Differ {
    pub(super) fn new() -> Self {
        Self { deadline: Instant::now() + EFFORT, block: None, writer: Writer::default() }
    }

    /// Adds a change, before which the content has so many line ends.
    pub(super) fn add<C: Content>(
        &mut self,
        content: &mut C,
        change: &Change,
        newlines_before: u64,
    ) -> Result<(), CallError> {
        let mut block = match self.block.take_if(|block| change.range.start < block.range.end) {
            Some(block) => block,
            None => {
                self.end_block(content)?;
                let start = content.line_start(change.range.start)?;
                Block { line: newlines_before, range: start..start, copied: start, new: NewText::default() }
            }
        };
        block.new.copy(content, block.copied..change.range.start)?;
        block.new.push(&change.text);
        block.copied = change.range.end;
        if change.range.end >= block.range.end || block.range.is_empty() {
            block.range.end = content.line_end(change.range.end)?;
        }
        self.block = Some(block);
        Ok(())
    }

    pub(super) fn finish<C: Content>(mut self, content: &mut C) -> Result<Diff, CallError> {
        self.end_block(content)?;
        self.writer.end_hunk(content)?;
        Ok(self.writer.diff)
    }

    fn end_block<C: Content>(&mut self, content: &mut C) -> Result<(), CallError> {
        let Some(mut block) = self.block.take() else { return Ok(()) };
        block.new.copy(content, block.copied..block.range.end)?;
        let old_length = block.range.end - block.range.start;
        if old_length.max(block.new.length) > BLOCK_BYTES {
            return self.writer.add(content, Run { line: block.line, gone: block.range, new: block.new });
        }
        let old = content.gather(block.range.clone())?;
        for run in runs(&old, block.range.start, block.line, &block.new.bytes, self.deadline) {
            self.writer.add(content, run)?;
        }
        Ok(())
    }
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// What differs between the lines of a block and those that stand there instead.
fn runs(old: &[u8], start: u64, line: u64, new: &[u8], deadline: Instant) -> Vec<Run> {
    let old_lines = lines(old);
    let new_lines = lines(new);
    let mut collector = Collector { pairs: Vec::new() };
    // Cannot fail: the collector does not.
    let _ = diff_slices_deadline(Algorithm::Myers, &mut collector, &old_lines, &new_lines, Some(deadline));
    // What is equal is told in order; what differs is what lies between.
    let mut runs = Vec::new();
    let (mut old_at, mut new_at, mut offset) = (0, 0, start);
    let end = (old_lines.len(), new_lines.len(), 0);
    for (old_equal, new_equal, equal) in collector.pairs.into_iter().chain([end]) {
        let bytes = |lines: &[&[u8]]| lines.iter().map(|line| line.len() as u64).sum::<u64>();
        let gone = bytes(old_lines.get(old_at..old_equal).unwrap_or_default());
        let added = new_lines.get(new_at..new_equal).unwrap_or_default();
        if gone > 0 || !added.is_empty() {
            let new = NewText::of(added.concat());
            runs.push(Run { line: line + old_at as u64, gone: offset..offset + gone, new });
        }
        let same = bytes(old_lines.get(old_equal..old_equal + equal).unwrap_or_default());
        offset += gone + same;
        (old_at, new_at) = (old_equal + equal, new_equal + equal);
    }
    runs
}

/// Notes what is equal.
struct Collector {
    /// Old line, new line, how many.
    pairs: Vec<(usize, usize, usize)>,
}

impl DiffHook for Collector {
    type Error = std::convert::Infallible;

    fn equal(&mut self, old: usize, new: usize, length: usize) -> Result<(), Self::Error> {
        self.pairs.push((old, new, length));
        Ok(())
    }
}

/// Puts runs that are close to each other into hunks.
#[derive(Default)]
struct Writer {
    diff: Diff,
    hunk: Option<Hunk>,
    /// New lines minus old lines, before the hunk.
    shift: i64,
}

struct Hunk {
    /// 0-based, of its first line.
    old_line: u64,
    old_count: u64,
    new_count: u64,
    /// Where its last run ends.
    end: u64,
    /// As much of it as can be shown, and a little more.
    body: String,
}

impl Hunk {
    /// Lines that stay.
    fn keep<C: Content>(&mut self, content: &mut C, range: Range<u64>) -> Result<(), CallError> {
        let kept = content.lines(range.clone())?;
        self.old_count += kept;
        self.new_count += kept;
        show_range(&mut self.body, ' ', content, range)
    }
}

impl Writer {
    fn add<C: Content>(&mut self, content: &mut C, run: Run) -> Result<(), CallError> {
        let gone = content.lines(run.gone.clone())?;
        let added = run.new.lines();
        self.diff.lines_changed += gone.max(added);
        if let Some(hunk) = &self.hunk {
            let between = hunk.end..run.gone.start;
            if content.newlines(between, 2 * CONTEXT)? > 2 * CONTEXT {
                self.end_hunk(content)?;
            }
        }
        let mut hunk = match self.hunk.take() {
            Some(mut hunk) => {
                hunk.keep(content, hunk.end..run.gone.start)?;
                hunk
            }
            None => {
                let mut start = run.gone.start;
                for _ in 0..CONTEXT {
                    start = start.checked_sub(1).map_or(Ok(0), |before| content.line_start(before))?;
                }
                let before = content.lines(start..run.gone.start)?;
                let old_line = run.line - before;
                let mut hunk = Hunk { old_line, old_count: 0, new_count: 0, end: start, body: String::new() };
                hunk.keep(content, start..run.gone.start)?;
                hunk
            }
        };
        hunk.old_count += gone;
        hunk.new_count += added;
        show_range(&mut hunk.body, '-', content, run.gone.clone())?;
        show(&mut hunk.body, '+', &run.new.bytes);
        hunk.end = run.gone.end;
        self.hunk = Some(hunk);
        Ok(())
    }

    fn end_hunk<C: Content>(&mut self, content: &mut C) -> Result<(), CallError> {
        let Some(mut hunk) = self.hunk.take() else { return Ok(()) };
        let mut end = hunk.end;
        for _ in 0..CONTEXT {
            end = content.line_end(end)?;
        }
        hunk.keep(content, hunk.end..end)?;
        let new_line = hunk.old_line.saturating_add_signed(self.shift);
        self.shift += hunk.new_count.cast_signed() - hunk.old_count.cast_signed();
        if self.diff.truncated {
            return Ok(());
        }
        let first_shown = |line: u64, count: u64| if count == 0 { line } else { line + 1 };
        let mut text = format!(
            "@@ -{},{} +{},{} @@\n{}",
            first_shown(hunk.old_line, hunk.old_count),
            hunk.old_count,
            first_shown(new_line, hunk.new_count),
            hunk.new_count,
            hunk.body
        );
        let room = DIFF_BYTES - self.diff.text.len();
        if text.len() > room {
            self.diff.truncated = true;
            // Of the first hunk something is shown, whole lines of it.
            let room = if self.diff.text.is_empty() { room } else { 0 };
            let cut = text.as_bytes().get(..room).and_then(|head| memchr::memrchr(b'\n', head));
            text.truncate(cut.map_or(0, |end| end + 1));
        }
        self.diff.text.push_str(&text);
        Ok(())
    }
}

/// Shows lines of the content, and no more of them than can be shown.
fn show_range<C: Content>(
    text: &mut String,
    sign: char,
    content: &mut C,
    range: Range<u64>,
) -> Result<(), CallError> {
    if text.len() > DIFF_BYTES || range.is_empty() {
        return Ok(());
    }
    let end = range.end.min(range.start + DIFF_BYTES as u64 + 1);
    show(text, sign, &content.gather(range.start..end)?);
    Ok(())
}

fn show(text: &mut String, sign: char, shown: &[u8]) {
    for line in shown.split_inclusive(|byte| *byte == b'\n') {
        if text.len() > DIFF_BYTES {
            return;
        }
        text.push(sign);
        text.push_str(&String::from_utf8_lossy(line));
        if !line.ends_with(b"\n") {
            text.push('\n');
            text.push_str(NO_LINE_END);
        }
    }
}
