//! Reading a file that is searched.

use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::io::Errno;

/// A NUL byte among so many first bytes makes a file a binary one, as for the read tool.
const SAMPLE_BYTES: u64 = 4 << 10;

/// What a file is, as far as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// No NUL byte.
    Text,
    /// Not to be searched.
    Binary,
    /// Text at the beginning; where the first NUL byte is, it ends.
    BecameBinary,
}

/// A file up to its first NUL byte, that can be given up.
pub(super) struct Reader<'a> {
    file: OwnedFd,
    is_over: &'a dyn Fn() -> bool,
    read: u64,
    /// Every other byte may be a NUL.
    is_utf16: bool,
    seen: Seen,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: OwnedFd, is_over: &'a dyn Fn() -> bool) -> Self {
        Self { file, is_over, read: 0, is_utf16: false, seen: Seen::Text }
    }

    pub(super) fn seen(&self) -> Seen {
        self.seen
    }

    /// How much of what was read is searched.
    fn look_at(&mut self, data: &[u8]) -> usize {
        if self.read == 0 {
            self.is_utf16 = data.starts_with(&[0xff, 0xfe]) || data.starts_with(&[0xfe, 0xff]);
        }
        let nul = if self.is_utf16 { None } else { memchr::memchr(0, data) };
        let length = match nul {
            Some(at) if self.read + (at as u64) < SAMPLE_BYTES => {
                self.seen = Seen::Binary;
                0
            }
            Some(at) => {
                self.seen = Seen::BecameBinary;
                at
            }
            None => data.len(),
        };
        self.read += length as u64;
        length
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.is_over)() {
            return Err(Errno::CANCELED.into());
        }
        if self.seen != Seen::Text {
            return Ok(0);
        }
        let read = rustix::io::read(&self.file, &mut *buffer)?;
        Ok(self.look_at(buffer.get(..read).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_nul_ends_a_file_or_makes_it_a_binary_one() {
        let check = |content: &[u8], expect: (Seen, usize)| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(content).unwrap();
            rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).unwrap();
            let never = || false;
            let mut reader = Reader::new(file.into(), &never);
            let mut seen = Vec::new();
            reader.read_to_end(&mut seen).unwrap();
            assert_eq!((reader.seen(), seen.len()), expect);
            assert!(content.starts_with(&seen));
        };
        let with_nul_at = |at: usize| [vec![b'x'; at].as_slice(), b"\0rest"].concat();
        check(b"text", (Seen::Text, 4));
        check(b"te\0xt", (Seen::Binary, 0));
        check(&with_nul_at(4096), (Seen::BecameBinary, 4096));
        check(&with_nul_at(1_000_000), (Seen::BecameBinary, 1_000_000));
        check(b"\xff\xfea\0b\0", (Seen::Text, 6));
        check(b"", (Seen::Text, 0));
    }
}
