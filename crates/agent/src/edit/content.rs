//! What is edited, a block at a time: a large file is never in memory as a whole.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fd::OwnedFd;
use rustix::fs::{Stat, fstat};
use rustix::io::Errno;

use crate::error::CallError;

/// How much of a file is read at once.
const BLOCK_BYTES: u64 = 256 << 10;

/// Blocks that are remembered. The search reads ahead of the diff, which looks a little back.
const REMEMBERED: usize = 4;

/// Bytes that can be asked for by where they are.
pub(crate) trait Content {
    /// How many there are.
    fn length(&self) -> u64;

    /// The block that the byte at `at` is in, and where the block begins; `at` must be before
    /// the end. Never empty.
    fn block(&mut self, at: u64) -> Result<(u64, &[u8]), CallError>;

    /// What the block at the beginning of a range has of it; empty for an empty range.
    fn piece(&mut self, range: Range<u64>) -> Result<&[u8], CallError> {
        if range.is_empty() {
            return Ok(&[]);
        }
        let (start, block) = self.block(range.start)?;
        let end = (range.end - start).min(block.len() as u64);
        Ok(block.get(index(range.start - start)..index(end)).unwrap_or_default())
    }

    /// All of a range, which the caller keeps small.
    fn gather(&mut self, range: Range<u64>) -> Result<Vec<u8>, CallError> {
        let mut gathered = Vec::with_capacity(index(range.end.saturating_sub(range.start)));
        let mut at = range.start;
        while at < range.end {
            let piece = self.piece(at..range.end)?;
            gathered.extend_from_slice(piece);
            at += piece.len() as u64;
        }
        Ok(gathered)
    }

    /// Where the first `\n` at or after `at` is.
    fn newline_from(&mut self, mut at: u64) -> Result<Option<u64>, CallError> {
        let end = self.length();
        while at < end {
            let piece = self.piece(at..end)?;
            if let Some(found) = memchr::memchr(b'\n', piece) {
                return Ok(Some(at + found as u64));
            }
            at += piece.len() as u64;
        }
        Ok(None)
    }

    /// Where the last `\n` before `end` is.
    fn newline_before(&mut self, mut end: u64) -> Result<Option<u64>, CallError> {
        while end > 0 {
            let (start, block) = self.block(end - 1)?;
            let before = block.get(..index(end - start)).unwrap_or_default();
            if let Some(found) = memchr::memrchr(b'\n', before) {
                return Ok(Some(start + found as u64));
            }
            end = start;
        }
        Ok(None)
    }

    /// Where the line begins that `at` is in.
    fn line_start(&mut self, at: u64) -> Result<u64, CallError> {
        Ok(self.newline_before(at)?.map_or(0, |end| end + 1))
    }

    /// After the end of the line that `at` is in.
    fn line_end(&mut self, at: u64) -> Result<u64, CallError> {
        let end = self.length();
        Ok(self.newline_from(at)?.map_or(end, |end| end + 1))
    }

    /// Whether the `\n` at `at` is the second half of a `\r\n`.
    fn is_crlf(&mut self, at: u64) -> Result<bool, CallError> {
        Ok(at > 0 && self.piece(at - 1..at)? == b"\r")
    }

    /// How many `\n` a range has; counting stops beyond `most`.
    fn newlines(&mut self, range: Range<u64>, most: u64) -> Result<u64, CallError> {
        let (mut at, mut count) = (range.start, 0);
        while at < range.end && count <= most {
            let piece = self.piece(at..range.end)?;
            count += memchr::memchr_iter(b'\n', piece).count() as u64;
            at += piece.len() as u64;
        }
        Ok(count)
    }

    /// How many lines a range has; one without an end is one too.
    fn lines(&mut self, range: Range<u64>) -> Result<u64, CallError> {
        let ended = self.newlines(range.clone(), u64::MAX)?;
        let is_open = !range.is_empty() && self.piece(range.end - 1..range.end)? != b"\n";
        Ok(ended + u64::from(is_open))
    }
}

/// A place in a block, which is in memory.
pub(super) fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// What is in memory is one block.
impl Content for &[u8] {
    fn length(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn block(&mut self, _: u64) -> Result<(u64, &[u8]), CallError> {
        Ok((0, self))
    }
}

/// A file that is too large to be held. Read, not mapped: a file that somebody cuts off while
/// it is mapped would end the agent.
pub(super) struct LargeFile {
    file: OwnedFd,
    path: PathBuf,
    as_found: Stat,
    length: u64,
    /// The one used last comes first.
    blocks: Vec<(u64, Vec<u8>)>,
    cancelled: Arc<AtomicBool>,
}

impl LargeFile {
    pub(super) fn new(file: OwnedFd, path: PathBuf, cancelled: Arc<AtomicBool>) -> Result<Self, CallError> {
        let as_found = fstat(&file).map_err(CallError::file(&path))?;
        let length = u64::try_from(as_found.st_size).unwrap_or(0);
        Ok(Self { file, path, as_found, length, blocks: Vec::new(), cancelled })
    }

    /// An error when somebody has changed the file since it was opened: what was read at
    /// different times does not belong together.
    pub(super) fn check_unchanged(&self) -> Result<(), CallError> {
        let now = fstat(&self.file).map_err(CallError::file(&self.path))?;
        let of = |stat: &Stat| {
            (stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec)
        };
        if of(&now) == of(&self.as_found) { Ok(()) } else { Err(self.changed()) }
    }

    fn changed(&self) -> CallError {
        CallError::ChangedMeanwhile { path: self.path.clone() }
    }

    fn read(&self, start: u64, buffer: &mut Vec<u8>) -> Result<(), CallError> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(CallError::File { path: self.path.clone(), errno: Errno::CANCELED });
        }
        let wanted = index(BLOCK_BYTES.min(self.length - start));
        buffer.resize(wanted, 0);
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pread(&self.file, rest, start + filled as u64) {
                // It was cut off meanwhile.
                Ok(0) => return Err(self.changed()),
                Ok(read) => filled += read,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(CallError::file(&self.path)(errno)),
            }
        }
        Ok(())
    }
}

impl Content for LargeFile {
    fn length(&self) -> u64 {
        self.length
    }

    fn block(&mut self, at: u64) -> Result<(u64, &[u8]), CallError> {
        let wanted = at - at % BLOCK_BYTES;
        let known = self.blocks.iter().position(|(start, _)| *start == wanted);
        if let Some(place) = known {
            self.blocks[..=place].rotate_right(1);
        } else {
            let is_full = self.blocks.len() == REMEMBERED;
            let mut buffer = self.blocks.pop_if(|_| is_full).map(|(_, buffer)| buffer).unwrap_or_default();
            self.read(wanted, &mut buffer)?;
            self.blocks.insert(0, (wanted, buffer));
        }
        match self.blocks.first() {
            Some((start, bytes)) => Ok((*start, bytes)),
            None => Ok((wanted, &[])),
        }
    }
}
