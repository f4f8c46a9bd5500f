//! Lines of a server's stdout.
//!
//! A line is at most so long; of a longer one nothing is kept but both ends, where its id may
//! be. The partial line lives in the reader, so a read that is given up loses nothing.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::json::IdKey;

const CHUNK: usize = 64 * 1024;
/// How much of either end of a long line is kept. An id stands within it or is not found.
const END: usize = 128;

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Without its end, a byte order mark or a carriage return. Never empty.
    Text(Vec<u8>),
    /// Longer than allowed, and dropped.
    TooLong {
        bytes: u64,
        /// The id of the response it was, if that could be told.
        id: Option<u64>,
    },
}

/// Reads lines and never holds more than the longest allowed one and a chunk.
pub(crate) struct LineReader<R> {
    input: R,
    longest: usize,
    chunk: Vec<u8>,
    /// How much of `chunk` was taken already.
    taken: usize,
    partial: Partial,
}

enum Partial {
    Kept(Vec<u8>),
    Dropped { bytes: u64, head: Vec<u8>, tail: Vec<u8> },
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(input: R, longest: usize) -> Self {
        Self { input, longest, chunk: Vec::new(), taken: 0, partial: Partial::Kept(Vec::new()) }
    }

    /// The next line; `None` at the end. A last line without an end counts.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let fresh = &self.chunk[self.taken..];
            if let Some(end) = fresh.iter().position(|byte| *byte == b'\n') {
                self.partial.push(&fresh[..end], self.longest);
                self.taken += end + 1;
                if let Some(line) = self.partial.finish() {
                    return Ok(Some(line));
                }
                continue;
            }
            self.partial.push(fresh, self.longest);
            self.taken = 0;
            self.chunk.clear();
            self.chunk.reserve(CHUNK);
            if self.input.read_buf(&mut self.chunk).await? == 0 {
                return Ok(self.partial.finish());
            }
        }
    }
}

impl Partial {
    fn push(&mut self, more: &[u8], longest: usize) {
        match self {
            Self::Kept(line) if line.len() + more.len() <= longest => line.extend_from_slice(more),
            Self::Kept(line) => {
                let head = line.iter().chain(more).copied().take(END).collect();
                let mut dropped = Self::Dropped { bytes: line.len() as u64, head, tail: last(line).to_vec() };
                dropped.push(more, longest);
                *self = dropped;
            }
            Self::Dropped { bytes, tail, .. } => {
                *bytes += more.len() as u64;
                tail.extend_from_slice(last(more));
                let surplus = tail.len().saturating_sub(END);
                tail.drain(..surplus);
            }
        }
    }

    /// The line, unless it is blank.
    fn finish(&mut self) -> Option<Line> {
        match std::mem::replace(self, Self::Kept(Vec::new())) {
            Self::Kept(mut line) => {
                if line.starts_with(b"\xef\xbb\xbf") {
                    line.drain(..3);
                }
                let end = line.trim_ascii_end().len();
                line.truncate(end);
                (!line.is_empty()).then_some(Line::Text(line))
            }
            Self::Dropped { bytes, head, tail } => Some(Line::TooLong { bytes, id: id_in(&head, &tail) }),
        }
    }
}

fn last(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.len().saturating_sub(END)..]
}

/// The id of a response whose middle is lost. Only places where nothing but a member of the
/// outermost object can stand are looked at: right after its first brace and right before its last.
fn id_in(head: &[u8], tail: &[u8]) -> Option<u64> {
    let head = String::from_utf8_lossy(head);
    let tail = String::from_utf8_lossy(tail);
    let version = r#""jsonrpc":"2.0","#;
    let first = head.trim_start_matches('\u{feff}').strip_prefix('{');
    let first = first.map(|rest| rest.strip_prefix(version).unwrap_or(rest));
    let number = match first.and_then(|rest| rest.strip_prefix(r#""id":"#)) {
        Some(rest) => rest.split_once(',')?.0,
        None => {
            let rest = tail.trim_end().strip_suffix('}')?;
            let rest = rest.strip_suffix(r#","jsonrpc":"2.0""#).unwrap_or(rest);
            rest.rsplit_once(r#","id":"#)?.1
        }
    };
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    IdKey::of(number)?.as_own()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(input: &[u8], longest: usize) -> Vec<Line> {
        let mut reader = LineReader::new(input, longest);
        let mut all = Vec::new();
        while let Some(line) = reader.next().await.unwrap() {
            all.push(line);
        }
        all
    }

    fn text(line: &str) -> Line {
        Line::Text(line.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn ends_marks_and_blanks() {
        let input = b"\xef\xbb\xbfone\r\n\n \r\ntwo\nlast";
        assert_eq!(lines(input, 100).await, [text("one"), text("two"), text("last")]);
    }

    #[tokio::test]
    async fn a_long_line_is_dropped_and_the_next_is_whole() {
        let middle = "x".repeat(200_000);
        let input = format!("{middle}\nfine\n{middle}");
        let long = || Line::TooLong { bytes: 200_000, id: None };
        assert_eq!(lines(input.as_bytes(), 1000).await, [long(), text("fine"), long()]);
        assert_eq!(lines(b"12345\n123456\n", 5).await, [text("12345"), Line::TooLong { bytes: 6, id: None }]);
    }

    #[tokio::test]
    async fn a_long_answer_is_still_somebodys() {
        let middle = "x".repeat(5000);
        for (line, expect) in [
            (format!(r#"{{"jsonrpc":"2.0","id":7,"result":"{middle}"}}"#), Some(7)),
            (format!(r#"{{"id":7,"result":"{middle}"}}"#), Some(7)),
            (format!(r#"{{"result":"{middle}","jsonrpc":"2.0","id":8}}"#), Some(8)),
            (format!(r#"{{"result":"{middle}","id":8,"jsonrpc":"2.0"}}"#), Some(8)),
            (format!(r#"{{"result":{{"a":"{middle}","id":8}}}}"#), None),
            (format!(r#"{{"id":"7","result":"{middle}"}}"#), None),
        ] {
            let Line::TooLong { id, .. } = lines(line.as_bytes(), 100).await.remove(0) else {
                panic!("kept")
            };
            assert_eq!(id, expect, "{}", &line[..40]);
        }
    }
}
