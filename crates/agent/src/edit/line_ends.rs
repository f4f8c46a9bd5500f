//! Line ends: `\n` in a request means whatever the file has, and so does `\r\n`.
//!
//! New text takes the line ends of the lines that it replaces. Where those differ, lines that
//! stay as they are at its beginning and end keep their own, and the others take over one from
//! each line that goes, the last of them for all that are more. Only where a file has no line
//! end at all, those of the new text are its own.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::error::CallError;

use super::content::Content;

/// Every line end as `\n`.
pub(super) fn to_lf(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { text.replace("\r\n", "\n").into() } else { text.into() }
}

/// Of each line end, in order: whether it is a `\r\n`.
pub(super) fn ends_of(text: &str) -> Vec<bool> {
    let bytes = text.as_bytes();
    let is_crlf = |at: usize| at.checked_sub(1).and_then(|before| bytes.get(before)) == Some(&b'\r');
    memchr::memchr_iter(b'\n', bytes).map(is_crlf).collect()
}

/// A text to put into places of a content.
pub(super) struct Dressing<'a> {
    /// What goes, and what comes: their line ends as `\n`.
    old: &'a str,
    new: Cow<'a, str>,
    is_verbatim: bool,
    /// The new text as it was given, with every line end as `\n`, and as `\r\n`.
    as_given: Arc<[u8]>,
    lf: Arc<[u8]>,
    crlf: Option<Arc<[u8]>>,
    /// From where to where a line is known to reach, and whether it ends in `\r\n`.
    following: Option<(Range<u64>, Option<bool>)>,
}

impl<'a> Dressing<'a> {
    /// A new text for an old one, whose line ends are `\n`.
    pub(super) fn new(old: &'a str, new: &'a str) -> Self {
        let as_given: Arc<[u8]> = new.as_bytes().into();
        let new = to_lf(new);
        let lf = if new.len() == as_given.len() { as_given.clone() } else { new.as_bytes().into() };
        Self { old, new, as_given, lf, crlf: None, following: None, is_verbatim: false }
    }

    /// The new text as it is, whatever the content's line ends.
    pub(super) fn verbatim(new: &'a str) -> Self {
        Self { is_verbatim: true, ..Self::new("", new) }
    }

    /// The new text for a place that ends at `end` and has these line ends.
    pub(super) fn text<C: Content>(
        &mut self,
        content: &mut C,
        end: u64,
        mut ends: Vec<bool>,
    ) -> Result<Arc<[u8]>, CallError> {
        if self.is_verbatim || !self.new.contains('\n') {
            return Ok(self.as_given.clone());
        }
        if !self.old.ends_with('\n') {
            // The line that the place ends in is replaced too.
            let last = self.line_end_after(content, end)?;
            ends.extend(last);
        }
        if ends.is_empty() {
            return Ok(self.as_given.clone());
        }
        if ends.iter().all(|is_crlf| !is_crlf) {
            return Ok(self.lf.clone());
        }
        if ends.iter().all(|is_crlf| *is_crlf) {
            let crlf = || self.new.replace('\n', "\r\n").into_bytes().into();
            return Ok(self.crlf.get_or_insert_with(crlf).clone());
        }
        Ok(mixed(self.old, &self.new, &ends))
    }

    /// Whether the line that `at` is in ends in `\r\n`; one that does not end, as the line
    /// before it, if there is one. Asked in the order of the content, so that a long line is
    /// looked through once.
    fn line_end_after<C: Content>(&mut self, content: &mut C, at: u64) -> Result<Option<bool>, CallError> {
        if let Some((_, is_crlf)) = self.following.as_ref().filter(|(line, _)| line.contains(&at)) {
            return Ok(*is_crlf);
        }
        let (end, newline) = match content.newline_from(at)? {
            Some(newline) => (newline, Some(newline)),
            None => {
                let end = content.length();
                (end, content.newline_before(end)?)
            }
        };
        let is_crlf = newline.map(|newline| content.is_crlf(newline)).transpose()?;
        self.following = Some((at..end + 1, is_crlf));
        Ok(is_crlf)
    }
}

/// The new text with line ends from lines that do not all end alike. `ends` are those of the
/// old text's lines; the last line has one only if the old text does not end in a line end.
pub(super) fn mixed(old: &str, new: &str, ends: &[bool]) -> Arc<[u8]> {
    let old: Vec<&str> = old.split('\n').collect();
    let new: Vec<&str> = new.split('\n').collect();
    // The last of each is what comes after the last line end.
    let (old_ends, new_ends) = (old.len() - 1, new.len() - 1);
    let most = old_ends.min(new_ends);
    let head = old.iter().zip(&new).take(most).take_while(|(old, new)| old == new).count();
    let alike = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let tail = alike.saturating_sub(1).min(most - head);
    // Of the old lines, those that go.
    let gone = head..if alike == 0 { ends.len() } else { old_ends - tail };
    let mut text = Vec::new();
    for (index, line) in new.iter().enumerate() {
        text.extend_from_slice(line.as_bytes());
        if index == new_ends {
            break;
        }
        let from = if index < head {
            index
        } else if index + tail >= new_ends {
            index + old_ends - new_ends
        } else {
            // Where none goes, as the line before which something is put.
            index.min(gone.end.saturating_sub(1)).max(gone.start)
        };
        let is_crlf = ends.get(from).or(ends.last()).is_some_and(|is_crlf| *is_crlf);
        // A `\r` that the new text names is there already.
        text.extend_from_slice(if is_crlf && !line.ends_with('\r') { b"\r\n" } else { b"\n" });
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_stay_keep_their_ends() {
        let check = |old: &str, new: &str, ends: &str, expect: &str| {
            let ends: Vec<_> = ends.chars().map(|end| end == 'r').collect();
            let seen = String::from_utf8(mixed(old, new, &ends).to_vec()).unwrap();
            assert_eq!(seen, expect, "{old:?} {new:?}");
        };
        // One for one.
        check("a\nb\nc", "x\ny\nz", "rnr", "x\r\ny\nz");
        check("a\nb\n", "x\ny\n", "rn", "x\r\ny\n");
        // More than go: the last that goes.
        check("a\nb", "x\ny\nz", "rn", "x\r\ny\nz");
        check("a\nb\n", "x\ny\nz\n", "nr", "x\ny\r\nz\r\n");
        // At the beginning, in the middle and at the end something is put in.
        check("a\nb\n", "new\na\nb\n", "nr", "new\na\nb\r\n");
        check("a\nb\n", "a\nnew\nb\n", "nr", "a\nnew\r\nb\r\n");
        check("a\nb\n", "a\nb\nnew\n", "nr", "a\nb\r\nnew\r\n");
        // Something goes.
        check("a\nb\nc\n", "a\nc\n", "nrn", "a\nc\n");
        check("a\nb\nc\n", "c\n", "nrr", "c\r\n");
    }

    #[test]
    fn the_line_decides_and_not_the_file() {
        let check = |content: &str, at: u64, expect: Option<bool>| {
            let mut dressing = Dressing::new("x", "y\nz");
            let seen = dressing.line_end_after(&mut content.as_bytes(), at).unwrap();
            assert_eq!(seen, expect, "{content:?} {at}");
        };
        check("", 0, None);
        check("a", 1, None);
        check("a\r\nb\nc", 1, Some(true));
        check("a\r\nb\nc", 2, Some(true));
        check("a\r\nb\nc", 3, Some(false));
        check("a\nb\r\nc", 6, Some(true));
    }
}
