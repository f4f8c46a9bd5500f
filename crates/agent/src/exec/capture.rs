//! The beginning and the end of an output, in bounded memory.

use bytes::Bytes;
use emergent_protocol::v1;

/// Keeps the first and the last bytes of a stream, half of the limit each, and counts all.
pub(super) struct Capture {
    head: Vec<u8>,
    head_limit: usize,
    /// A ring once it has reached `tail_limit`; `tail_start` is its oldest byte.
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
        let room = self.head_limit - self.head.len();
        let (head, rest) = data.split_at(room.min(data.len()));
        self.head.extend_from_slice(head);
        self.push_tail(rest);
    }

    fn push_tail(&mut self, data: &[u8]) {
        // Only the last bytes can survive.
        let data = data.get(data.len().saturating_sub(self.tail_limit)..).unwrap_or_default();
        let (growth, mut rest) = data.split_at((self.tail_limit - self.tail.len()).min(data.len()));
        self.tail.extend_from_slice(growth);
        while !rest.is_empty() {
            let until_end = self.tail.len() - self.tail_start;
            let (now, later) = rest.split_at(until_end.min(rest.len()));
            self.tail[self.tail_start..self.tail_start + now.len()].copy_from_slice(now);
            self.tail_start = (self.tail_start + now.len()) % self.tail_limit;
            rest = later;
        }
    }

    pub(super) fn into_message(mut self) -> v1::Capture {
        self.tail.rotate_left(self.tail_start);
        v1::Capture { head: Bytes::from(self.head), tail: Bytes::from(self.tail), total_bytes: self.total }
    }
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
                prop_assert_eq!(&capture.head[..], &whole[..limit - limit / 2]);
                prop_assert_eq!(&capture.tail[..], &whole[whole.len() - limit / 2..]);
            }
        }
    }
}
