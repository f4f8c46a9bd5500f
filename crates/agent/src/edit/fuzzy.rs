//! Whole lines that are equal but for blanks.
//!
//! A content is looked through in stretches of whole lines that overlap. A place may be as
//! long as half a stretch, blanks included; that is far more than a place needs.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use crate::error::CallError;

use super::apply::{Change, Edit, Refusal, Rule, Stopped};
use super::content::{Content, index};
use super::line_ends::{mixed, to_lf};

/// A stretch has at least this length, if there is as much.
const STRETCH_BYTES: u64 = 8 << 20;

/// And as many times the length of the text that is looked for.
const STRETCH_FACTOR: u64 = 8;

/// The one place whose lines are those of the old text by this rule. The text begins at
/// `from`.
pub(super) fn find<C: Content>(
    content: &mut C,
    from: u64,
    edit: Edit<'_>,
    rule: Rule,
) -> Result<Option<Change>, Stopped> {
    let length = STRETCH_BYTES.max(STRETCH_FACTOR * edit.old.len() as u64);
    find_in_stretches(content, from, edit, rule, length)
}

pub(super) fn find_in_stretches<C: Content>(
    content: &mut C,
    from: u64,
    edit: Edit<'_>,
    rule: Rule,
    length: u64,
) -> Result<Option<Change>, Stopped> {
    let old_lines: Vec<&[u8]> = split(edit.old.as_bytes()).collect();
    if old_lines.iter().all(|line| bare(line, rule).is_empty()) {
        return Ok(None);
    }
    // Line ends around every line: what is found are whole lines.
    let needle = joined(old_lines.iter().copied(), rule);
    let finder = memmem::Finder::new(&needle);
    let mut only: Option<(Place, Change)> = None;
    let mut stretch = Stretch { range: from..from, line: 1 };
    while let Some(text) = stretch.read(content, length)? {
        for place in places(&finder, &text, rule, old_lines.len()) {
            let line = stretch.line + place.line;
            match &only {
                None => {
                    let change = change(&text, &place, edit, &old_lines, rule, stretch.range.start);
                    only = Some((Place { line, ..place }, change));
                }
                // The same one again, where stretches overlap.
                Some((known, _)) if known.line == line => {}
                Some((known, _)) => {
                    return Err(Refusal::MultipleMatches { lines: vec![known.line, line] }.into());
                }
            }
        }
        stretch.go_on(&text, length / 2);
    }
    Ok(only.map(|(_, change)| change))
}

/// Whole lines of a content.
struct Stretch {
    range: Range<u64>,
    /// The 1-based number of the first line.
    line: u64,
}

impl Stretch {
    /// Reads from where the range begins; `None` at the end. May be empty: a line that is too
    /// long for a place is passed over.
    fn read<C: Content>(&mut self, content: &mut C, length: u64) -> Result<Option<Vec<u8>>, CallError> {
        let end = content.length();
        if self.range.start >= end {
            return Ok(None);
        }
        self.range.end = end.min(self.range.start.saturating_add(length));
        let mut text = content.gather(self.range.clone())?;
        if self.range.end < end {
            let whole = memchr::memrchr(b'\n', &text).map_or(0, |newline| newline + 1);
            if whole == 0 {
                self.range.start = content.line_end(self.range.end)?;
                self.line += 1;
                self.range.end = self.range.start;
                return Ok(Some(Vec::new()));
            }
            text.truncate(whole);
        }
        self.range.end = self.range.start + text.len() as u64;
        Ok(Some(text))
    }

    /// Begins the next stretch with the lines of the last that a place may begin in which
    /// goes beyond it.
    fn go_on(&mut self, text: &[u8], overlap: u64) {
        let enough = text.len().saturating_sub(index(overlap));
        let newline = memchr::memchr(b'\n', text.get(enough..).unwrap_or_default());
        let mut passed = newline.map_or(text.len(), |newline| enough + newline + 1);
        if enough == 0 {
            // It is the last, or so short that nothing of it is worth another look.
            passed = text.len();
        }
        self.line += memchr::memchr_iter(b'\n', text.get(..passed).unwrap_or_default()).count() as u64;
        self.range.start += passed as u64;
    }
}

/// Lines that match.
struct Place {
    /// The first of them.
    line: u64,
    bytes: Range<usize>,
}

/// The first two places in a text.
fn places(finder: &memmem::Finder<'_>, text: &[u8], rule: Rule, lines: usize) -> Vec<Place> {
    let haystack = joined(split(text), rule);
    let mut places = Vec::new();
    let mut at = 0;
    while let Some(found) = finder.find(haystack.get(at..).unwrap_or_default()).filter(|_| places.len() < 2) {
        let before = haystack.get(..at + found).unwrap_or_default();
        let line = memchr::memchr_iter(b'\n', before).count();
        let start: usize = split(text).take(line).map(<[u8]>::len).sum();
        let length: usize = split(text).skip(line).take(lines).map(<[u8]>::len).sum();
        places.push(Place { line: line as u64, bytes: start..start + length });
        at += found + 1;
    }
    places
}

fn change(text: &[u8], place: &Place, edit: Edit<'_>, old_lines: &[&[u8]], rule: Rule, base: u64) -> Change {
    let bytes = text.get(place.bytes.clone()).unwrap_or_default();
    let found: Vec<&[u8]> = split(bytes).collect();
    let mut end = place.bytes.end;
    let mut new = to_lf(edit.new);
    let last_end = found.last().map_or(0, |line| line_end(line));
    if !edit.old.ends_with('\n') {
        end -= last_end;
    } else if last_end == 0 {
        // The file does not end in a line end, and does not after this.
        new = new.strip_suffix('\n').map(|new| new.to_owned().into()).unwrap_or(new);
    }
    if rule == Rule::Indentation {
        new = reindent(&new, old_lines, &found).into();
    }
    let ended = found.iter().filter(|line| line_end(line) > 0);
    let mut ends: Vec<bool> = ended.map(|line| line_end(line) == 2).collect();
    if ends.is_empty() {
        // One line, the last of the file: as the line before it.
        ends.push(text.get(..place.bytes.start).is_some_and(|before| before.ends_with(b"\r\n")));
    }
    let shown = |line: &&[u8]| {
        let text = line.get(..line.len() - line_end(line)).unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    };
    let mut old = found.iter().map(shown).collect::<Vec<_>>().join("\n");
    if edit.old.ends_with('\n') && last_end > 0 {
        old.push('\n');
    }
    let range = base + place.bytes.start as u64..base + end as u64;
    Change { range, text: mixed(&old, &new, &ends) }
}

/// Lines with their ends.
fn split(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

fn line_end(line: &[u8]) -> usize {
    if line.ends_with(b"\r\n") { 2 } else { usize::from(line.ends_with(b"\n")) }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// What of a line counts.
fn bare(line: &[u8], rule: Rule) -> &[u8] {
    let end = line.iter().rposition(|byte| !is_blank(*byte)).map_or(0, |last| last + 1);
    let start = if rule == Rule::Indentation { indentation(line).len() } else { 0 };
    line.get(start..end).unwrap_or_default()
}

fn joined<'a>(lines: impl Iterator<Item = &'a [u8]>, rule: Rule) -> Vec<u8> {
    let mut joined = vec![b'\n'];
    for line in lines {
        joined.extend_from_slice(bare(line, rule));
        joined.push(b'\n');
    }
    joined
}

fn indentation(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    line.get(..end).unwrap_or_default()
}

/// The new text with the file's indentation: what the old text had at a depth tells what the
/// file has there. Deeper lines keep what they have more.
fn reindent(new: &str, old_lines: &[&[u8]], found: &[&[u8]]) -> String {
    let mut depths: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::new();
    for (old, found) in old_lines.iter().zip(found) {
        if bare(old, Rule::Indentation).is_empty() {
            continue;
        }
        let [old, found] = [old, found].map(|line| String::from_utf8_lossy(indentation(line)));
        if !depths.iter().any(|(known, _)| *known == old) {
            depths.push((old, found));
        }
    }
    // The deepest that fits.
    depths.sort_by_key(|(old, _)| std::cmp::Reverse(old.len()));
    new.split_inclusive('\n')
        .map(|line| {
            if line.trim().is_empty() {
                return line.to_owned();
            }
            let own = line.len() - line.trim_start_matches([' ', '\t']).len();
            let (blanks, rest) = line.split_at(own);
            match depths.iter().find(|(old, _)| blanks.starts_with(&**old)) {
                Some((old, found)) => {
                    format!("{found}{}{rest}", blanks.get(old.len()..).unwrap_or_default())
                }
                None => line.to_owned(),
            }
        })
        .collect()
}
