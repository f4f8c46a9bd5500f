//! Pages of a text file, in bounded memory however long the file or its lines are.

use emergent_protocol::v1;

use super::page::PAGE_BYTES;

/// What is shown of a line, in characters.
const LINE_CHARS: usize = 2000;

/// Bytes kept of a line: enough for that many characters of any kind, and for one more, which
/// tells that there is more.
const LINE_BYTES: usize = (LINE_CHARS + 1) * 4;

/// Stands for the rest of a line that was cut.
const CUT_MARK: &str = " … [line cut]";

/// Takes a file in pieces and makes a page of some of its lines, each `N: text`.
pub(super) struct PageBuilder {
    /// The first and the last line of the page, counted from 1.
    first: u64,
    last: u64,
    content: String,
    /// The page has no room; this line was the first not to fit.
    full_at: Option<u64>,
    any_cut: bool,
    /// The line that pieces are being added to.
    number: u64,
    line: Vec<u8>,
    /// Whether the current line has any bytes, kept or not.
    line_begun: bool,
}

impl PageBuilder {
    /// A page of `limit` lines from line `offset` on, counted from 1.
    pub(super) fn new(offset: u64, limit: u64) -> Self {
        Self {
            first: offset,
            last: offset.saturating_add(limit - 1),
            content: String::new(),
            full_at: None,
            any_cut: false,
            number: 1,
            line: Vec::new(),
            line_begun: false,
        }
    }

    /// Adds the next bytes of the file.
    pub(super) fn push(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            if !self.is_wanted() && !self.is_before() {
                // Nothing will be shown any more: only the lines are counted.
                let ends = memchr::memchr_iter(b'\n', piece).count() as u64;
                self.number += ends;
                self.line_begun = piece.last() != Some(&b'\n');
                return;
            }
            match memchr::memchr(b'\n', piece) {
                Some(end) => {
                    let (text, rest) = piece.split_at(end);
                    self.extend_line(text);
                    self.end_line();
                    piece = rest.get(1..).unwrap_or_default();
                }
                None => {
                    self.extend_line(piece);
                    return;
                }
            }
        }
    }

    /// Adds so many NUL bytes. As many as are kept of a line say the same as all of them.
    pub(super) fn push_hole(&mut self, length: u64) {
        let most = LINE_BYTES as u64;
        self.push(&vec![0; usize::try_from(length.min(most)).unwrap_or(LINE_BYTES)]);
    }

    /// The page, when the whole file was pushed.
    pub(super) fn finish(mut self) -> v1::TextPage {
        if self.line_begun {
            self.end_line();
        }
        let total_lines = self.number - 1;
        let next = self.full_at.unwrap_or(self.last.saturating_add(1));
        let has_more = next <= total_lines;
        v1::TextPage {
            content: self.content,
            total_lines,
            truncated: has_more || self.any_cut,
            next_offset: if has_more { next } else { 0 },
        }
    }

    fn is_before(&self) -> bool {
        self.number < self.first
    }

    fn is_wanted(&self) -> bool {
        (self.first..=self.last).contains(&self.number) && self.full_at.is_none()
    }

    fn extend_line(&mut self, text: &[u8]) {
        self.line_begun = true;
        if self.is_wanted() {
            let room = LINE_BYTES - self.line.len();
            self.line.extend_from_slice(text.get(..room).unwrap_or(text));
        }
    }

    fn end_line(&mut self) {
        if self.is_wanted() {
            self.show_line();
        }
        self.line.clear();
        self.line_begun = false;
        self.number += 1;
    }

    fn show_line(&mut self) {
        let text = String::from_utf8_lossy(&self.line);
        let cut_at = text.char_indices().nth(LINE_CHARS).map(|(at, _)| at);
        let shown = text.get(..cut_at.unwrap_or(text.len())).unwrap_or_default();
        let mark = if cut_at.is_some() { CUT_MARK } else { "" };
        let separator = if self.content.is_empty() { "" } else { "\n" };
        let line = format!("{separator}{}: {shown}{mark}", self.number);
        if self.content.len() + line.len() > PAGE_BYTES {
            self.full_at = Some(self.number);
        } else {
            self.content.push_str(&line);
            self.any_cut |= cut_at.is_some();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(content: &[u8], offset: u64, limit: u64, piece: usize) -> v1::TextPage {
        let mut builder = PageBuilder::new(offset, limit);
        content.chunks(piece).for_each(|piece| builder.push(piece));
        builder.finish()
    }

    #[test]
    fn pages_of_small_files() {
        let check = |content: &str, offset, limit, expect: (&str, u64, u64)| {
            for piece in [1, 2, 1000] {
                let page = page(content.as_bytes(), offset, limit, piece);
                let seen = (page.content.as_str(), page.total_lines, page.next_offset);
                assert_eq!(seen, expect, "{content:?} in pieces of {piece}");
                assert_eq!(page.truncated, expect.2 != 0);
            }
        };
        check("", 1, 10, ("", 0, 0));
        check("a", 1, 10, ("1: a", 1, 0));
        check("a\n", 1, 10, ("1: a", 1, 0));
        check("\n", 1, 10, ("1: ", 1, 0));
        check("a\n\nc", 1, 10, ("1: a\n2: \n3: c", 3, 0));
        check("a\nb\nc\n", 2, 1, ("2: b", 3, 3));
        check("a\nb\nc\n", 3, 1, ("3: c", 3, 0));
        check("a\nb\nc\n", 4, 1, ("", 3, 0));
        check("a\nb\nc", 1, u64::MAX, ("1: a\n2: b\n3: c", 3, 0));
        check("a\nb", u64::MAX, u64::MAX, ("", 2, 0));
        check("a\r\nb", 1, 10, ("1: a\r\n2: b", 2, 0));
    }

    #[test]
    fn long_lines_are_cut_by_characters() {
        for character in ["x", "ä", "日", "🦀"] {
            let exact = page(character.repeat(LINE_CHARS).as_bytes(), 1, 1, 1000);
            assert_eq!(exact.content, format!("1: {}", character.repeat(LINE_CHARS)));
            assert!(!exact.truncated);
            let long = page(character.repeat(LINE_CHARS + 1).as_bytes(), 1, 1, 1000);
            assert_eq!(long.content, format!("1: {}{CUT_MARK}", character.repeat(LINE_CHARS)));
            assert!(long.truncated && long.next_offset == 0);
        }
    }

    #[test]
    fn a_page_never_exceeds_its_bytes_and_never_stands_still() {
        let line = format!("{}\n", "日".repeat(3000));
        let content = line.repeat(50);
        let mut offset = 1;
        let mut seen = 0;
        while offset != 0 {
            let page = page(content.as_bytes(), offset, 2000, 8192);
            assert!(page.content.len() <= PAGE_BYTES);
            assert!(page.next_offset == 0 || page.next_offset > offset);
            seen += page.content.lines().count();
            offset = page.next_offset;
        }
        assert_eq!(seen, 50);
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        assert_eq!(page(b"a\xffb", 1, 1, 1).content, "1: a\u{fffd}b");
    }

    proptest! {
        #[test]
        fn equals_splitting_the_whole(
            lines in prop::collection::vec("[a-zä]{0,6}", 0..30),
            ends_with_newline: bool,
            offset in 1u64..35,
            limit in 1u64..35,
            piece in 1usize..20,
        ) {
            let mut whole = lines.join("\n");
            if ends_with_newline && !lines.is_empty() {
                whole.push('\n');
            }
            let expected: Vec<String> = whole
                .lines()
                .enumerate()
                .map(|(index, line)| format!("{}: {line}", index + 1))
                .skip(offset as usize - 1)
                .take(limit as usize)
                .collect();
            let page = page(whole.as_bytes(), offset, limit, piece);
            prop_assert_eq!(page.total_lines, whole.lines().count() as u64);
            prop_assert_eq!(page.content, expected.join("\n"));
            let next = offset + limit;
            prop_assert_eq!(page.next_offset, if next <= page.total_lines { next } else { 0 });
        }
    }
}
