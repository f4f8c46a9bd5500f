//! The last bytes of an output, with their place in it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use emergent_protocol::CHUNK_BYTES;
use tokio::sync::watch;

use crate::exec::Sink;

/// What is kept of a stream. Memory is taken as it fills.
const RING_BYTES: usize = 1 << 20;

/// A ring that can be read from any place again and again, and waited on.
pub(super) struct Ring {
    kept: Mutex<Kept>,
    /// Bytes ever written, and whether more is to be waited for.
    progress: watch::Sender<Progress>,
}

#[derive(Default)]
struct Kept {
    bytes: VecDeque<u8>,
    total: u64,
}

/// How far a stream has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Progress {
    pub(super) total: u64,
    pub(super) finished: bool,
}

impl Default for Ring {
    fn default() -> Self {
        Self { kept: Mutex::default(), progress: watch::Sender::new(Progress::default()) }
    }
}

impl Ring {
    /// Bytes ever written.
    pub(super) fn total(&self) -> u64 {
        self.progress.borrow().total
    }

    /// No more is to be waited for.
    pub(super) fn finish(&self) {
        self.progress.send_modify(|progress| progress.finished = true);
    }

    /// Tells of every change.
    pub(super) fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Some bytes from `offset` on, or from the oldest that is still there, with their place.
    /// Empty at the end.
    pub(super) fn read(&self, offset: u64) -> (u64, Bytes) {
        let kept = self.lock();
        let oldest = kept.total - kept.bytes.len() as u64;
        let from = offset.clamp(oldest, kept.total);
        // Fits: at most the ring's length.
        let skip = usize::try_from(from - oldest).unwrap_or(usize::MAX);
        let (front, back) = kept.bytes.as_slices();
        let rest = match front.get(skip..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => back.get(skip.saturating_sub(front.len())..).unwrap_or_default(),
        };
        let chunk = rest.get(..CHUNK_BYTES).unwrap_or(rest);
        (from, Bytes::copy_from_slice(chunk))
    }

    fn push(&self, data: &[u8]) {
        let mut kept = self.lock();
        kept.total += data.len() as u64;
        let data = data.get(data.len().saturating_sub(RING_BYTES)..).unwrap_or_default();
        let surplus = (kept.bytes.len() + data.len()).saturating_sub(RING_BYTES);
        kept.bytes.drain(..surplus);
        kept.bytes.extend(data);
        let total = kept.total;
        drop(kept);
        self.progress.send_modify(|progress| progress.total = total);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for std::sync::Arc<Ring> {
    async fn take(&mut self, data: &[u8]) {
        self.push(data);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(ring: &Ring, mut offset: u64) -> (u64, Vec<u8>) {
        let (first, mut chunk) = ring.read(offset);
        let mut all = Vec::new();
        while !chunk.is_empty() {
            all.extend_from_slice(&chunk);
            offset = first + all.len() as u64;
            let (next, bytes) = ring.read(offset);
            assert_eq!(next, offset);
            chunk = bytes;
        }
        (first, all)
    }

    #[test]
    fn what_has_left_the_ring_is_skipped() {
        let ring = Ring::default();
        ring.push(&vec![b'a'; RING_BYTES]);
        ring.push(b"bc");
        let (first, all) = read_all(&ring, 0);
        assert_eq!((first, all.len()), (2, RING_BYTES));
        assert!(all.ends_with(b"abc"));
        assert_eq!(read_all(&ring, u64::MAX).1, b"");
        assert_eq!(ring.total(), RING_BYTES as u64 + 2);
    }

    proptest! {
        #[test]
        fn every_place_is_what_was_written_there(
            pieces in prop::collection::vec((any::<u8>(), 1usize..400_000), 1..8),
            offset in 0u64..3_000_000,
        ) {
            let ring = Ring::default();
            let mut whole = Vec::new();
            for (byte, length) in pieces {
                ring.push(&vec![byte; length]);
                whole.extend(std::iter::repeat_n(byte, length));
            }
            let oldest = whole.len().saturating_sub(RING_BYTES) as u64;
            let expected_first = offset.clamp(oldest, whole.len() as u64);
            let (first, all) = read_all(&ring, offset);
            prop_assert_eq!(first, expected_first);
            prop_assert!(all == whole[first as usize..]);
        }
    }
}
