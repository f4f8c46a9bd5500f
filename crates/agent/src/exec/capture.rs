//! The beginning and the end of an output, in bounded memory.

use std::ops::Range;

use bytes::Bytes;
use emergent_protocol::v1;

/// The most bytes of a character but one: as much as can be on the other side of a cut.
const MOST_ACROSS: usize = char::MAX.len_utf8() - 1;

/// Keeps the first and the last bytes of a stream, half of the limit each, and counts all.
/// Where something is missing between them, neither ends or begins within a character; bytes
/// that are no UTF-8 are kept as they are.
pub(super) struct Capture {
    /// With a little of what comes after it, to see where its last character ends.
    head: Vec<u8>,
    head_limit: usize,
    /// With a little of what comes before it. A ring once it is full; `tail_start` is its
    /// oldest byte.
    tail: Vec<u8>,
    tail_limit: usize,
    tail_start: usize,
    total: u64,
}

impl Capture {
    pub(super) fn new(limit: usize) -> Self {
        let tail_limit = limit / 2;
        Self {
            head: Vec::new(),
            head_limit: limit - tail_limit,
            tail: Vec::new(),
            tail_limit,
            tail_start: 0,
            total: 0,
        }
    }

    pub(super) fn push(&mut self, data: &[u8]) {
        self.total += data.len() as u64;
        let before_tail = self.head_limit.saturating_sub(self.head.len());
        let room = self.head_limit + MOST_ACROSS - self.head.len();
        self.head.extend_from_slice(data.get(..room).unwrap_or(data));
        self.push_tail(data.get(before_tail..).unwrap_or_default());
    }

    /// Whether something is missing between head and tail.
    pub(super) fn overflows(&self) -> bool {
        self.total > (self.head_limit + self.tail_limit) as u64
    }

    fn push_tail(&mut self, data: &[u8]) {
        let size = self.tail_limit + MOST_ACROSS;
        // Only the last bytes can survive.
        let data = data.get(data.len().saturating_sub(size)..).unwrap_or_default();
        let (growth, mut rest) = data.split_at((size - self.tail.len()).min(data.len()));
        self.tail.extend_from_slice(growth);
        while !rest.is_empty() {
            let until_end = self.tail.len() - self.tail_start;
            let (now, later) = rest.split_at(until_end.min(rest.len()));
            self.tail[self.tail_start..self.tail_start + now.len()].copy_from_slice(now);
            self.tail_start = (self.tail_start + now.len()) % size;
            rest = later;
        }
    }

    pub(super) fn into_message(mut self) -> v1::Capture {
        self.tail.rotate_left(self.tail_start);
        if self.overflows() {
            self.tail.drain(..self.tail_begin());
            let across = character_across(&self.head, self.head_limit);
            self.head.truncate(across.map_or(self.head_limit, |character| character.start));
        } else {
            self.head.truncate(self.head_limit);
        }
        v1::Capture { head: Bytes::from(self.head), tail: Bytes::from(self.tail), total_bytes: self.total }
    }

    /// Where in what is held of it the tail begins.
    fn tail_begin(&self) -> usize {
        let surplus = self.tail.len() - self.tail_limit;
        // Where less than that is missing, the head's last bytes come right before it.
        let head = self.head.get(..self.head_limit).unwrap_or_default();
        let head = if surplus < MOST_ACROSS { head } else { &[] };
        let head = head.get(head.len().saturating_sub(MOST_ACROSS)..).unwrap_or_default();
        let tail = self.tail.get(..surplus + MOST_ACROSS).unwrap_or(&self.tail);
        let across = character_across(&[head, tail].concat(), head.len() + surplus);
        across.map_or(surplus, |character| character.end - head.len())
    }
}

/// The character that a cut at `at` would go through.
fn character_across(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let earliest = at.saturating_sub(MOST_ACROSS);
    // Bytes below this are characters of their own, or go on with one.
    let start = earliest + bytes.get(earliest..at)?.iter().rposition(|byte| *byte >= 0xc0)?;
    let valid = bytes.get(start..)?.utf8_chunks().next()?.valid();
    let end = start + valid.chars().next()?.len_utf8();
    (end > at).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn captured(limit: usize, pieces: &[Vec<u8>]) -> v1::Capture {
        let mut capture = Capture::new(limit);
        pieces.iter().for_each(|piece| capture.push(piece));
        capture.into_message()
    }

    #[test]
    fn head_and_tail_with_the_middle_gone() {
        let pieces: Vec<_> = (0u8..10).map(|byte| vec![byte; 2]).collect();
        let capture = captured(7, &pieces);
        assert_eq!(&capture.head[..], [0, 0, 1, 1]);
        assert_eq!(&capture.tail[..], [8, 9, 9]);
        assert_eq!(capture.total_bytes, 20);
    }

    #[test]
    fn characters_are_not_cut() {
        let check = |limit: usize, output: &[u8], head: &[u8], tail: &[u8]| {
            for size in 1..=output.len() {
                let pieces: Vec<_> = output.chunks(size).map(<[u8]>::to_vec).collect();
                let capture = captured(limit, &pieces);
                assert_eq!((&capture.head[..], &capture.tail[..]), (head, tail), "in pieces of {size}");
                assert_eq!(capture.total_bytes, output.len() as u64);
            }
        };
        check(8, "ääääääää".as_bytes(), "ää".as_bytes(), "ää".as_bytes());
        check(6, "ääääääää".as_bytes(), "ä".as_bytes(), "ä".as_bytes());
        check(8, "日日日日日日".as_bytes(), "日".as_bytes(), "日".as_bytes());
        check(10, "🦀🦀🦀🦀".as_bytes(), "🦀".as_bytes(), "🦀".as_bytes());
        check(4, "🦀🦀🦀🦀".as_bytes(), b"", b"");
        // The same character is cut on both sides.
        check(4, "a🦀b".as_bytes(), b"a", b"b");
        check(5, "ab🦀c".as_bytes(), b"ab", b"c");
        // What is no character is nobody's to leave out.
        check(4, &[0x80; 9], &[0x80; 2], &[0x80; 2]);
        check(4, b"a\xffbcd\xff\xfe", b"a\xff", b"\xff\xfe");
        check(4, b"a\xe4bc\xe4\x20", b"a\xe4", b"\xe4\x20");
    }

    proptest! {
        #[test]
        fn equals_cutting_the_whole(
            limit in 0usize..64,
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..12),
        ) {
            let whole = pieces.concat();
            let capture = captured(limit, &pieces);
            prop_assert_eq!(capture.total_bytes, whole.len() as u64);
            if whole.len() <= limit {
                prop_assert_eq!([&capture.head[..], &capture.tail[..]].concat(), whole);
            } else {
                let (head, tail) = (limit - limit / 2, limit / 2);
                prop_assert!(whole[..head].starts_with(&capture.head) && capture.head.len() + 3 >= head);
                prop_assert!(whole.ends_with(&capture.tail) && capture.tail.len() + 3 >= tail);
                prop_assert!(capture.tail.len() <= tail);
            }
        }

        /// Text stays text.
        #[test]
        fn text_is_cut_between_characters(limit in 0usize..40, text in "[aä日🦀]{0,40}", size in 1usize..9) {
            let pieces: Vec<_> = text.as_bytes().chunks(size).map(<[u8]>::to_vec).collect();
            let capture = captured(limit, &pieces);
            if text.len() > limit {
                prop_assert!(std::str::from_utf8(&capture.head).is_ok());
                prop_assert!(std::str::from_utf8(&capture.tail).is_ok());
            }
        }
    }
}
