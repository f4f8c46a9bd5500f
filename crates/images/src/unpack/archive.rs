//! Reads the entries of an archive, with bounded memory whatever the archive says.
//!
//! The `tar` crate decodes the fields of a header. Which header follows which is decided here: the
//! crate's own reader holds long names and attributes in memory in any size, and reads attribute
//! values by lines.

use std::io::{self, Read};

use tar::{EntryType, Header};

use super::error::{Limit, UnpackError};
use super::extended::Extended;
use super::limits::Budget;
use super::root_path::RootPath;

const BLOCK: usize = 512;

/// One thing to be made.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) path: RootPath,
    pub(super) kind: Kind,
    /// Twelve bits.
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: (i64, u32),
    pub(super) attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its content is read next.
    File {
        size: u64,
    },
    Folder,
    /// To anywhere: nobody here follows it.
    Symlink {
        target: Vec<u8>,
    },
    HardLink {
        target: RootPath,
    },
    Fifo,
    Device,
}

/// An archive and how far it has been read.
pub(super) struct Archive<R> {
    source: R,
    pub(super) budget: Budget,
    /// Of the current entry.
    content: u64,
    padding: u64,
}

impl<R: Read> Archive<R> {
    pub(super) fn new(source: R, budget: Budget) -> Self {
        Self { source, budget, content: 0, padding: 0 }
    }

    /// The next entry, past what is left of the current one; nothing at the end of the archive.
    pub(super) fn next(&mut self) -> Result<Option<Entry>, UnpackError> {
        self.skip()?;
        let mut extended = Extended::default();
        while let Some(header) = self.header()? {
            // What only describes is counted as well, or a chain of it would have no end.
            self.budget.entry()?;
            match header.entry_type() {
                EntryType::XHeader => {
                    let records = self.description(&header)?;
                    extended.take_records(&records, self.budget.bytes())?;
                }
                // Defaults for all that follows: nothing that exports a root relies on them.
                EntryType::XGlobalHeader => {
                    self.description(&header)?;
                }
                EntryType::GNULongName => extended.path = Some(until_zero(self.description(&header)?)),
                EntryType::GNULongLink => extended.link = Some(until_zero(self.description(&header)?)),
                _ => return self.entry(&header, extended).map(Some),
            }
        }
        if extended != Extended::default() {
            return Err(self.malformed("a description of nothing at the end"));
        }
        Ok(None)
    }

    /// Reads content of the current entry; nothing at its end.
    pub(super) fn read_content(&mut self, buffer: &mut [u8]) -> Result<usize, UnpackError> {
        let wanted = usize::try_from(self.content).unwrap_or(usize::MAX).min(buffer.len());
        self.fill(&mut buffer[..wanted])?;
        self.content -= wanted as u64;
        Ok(wanted)
    }

    fn entry(&mut self, header: &Header, extended: Extended) -> Result<Entry, UnpackError> {
        let limits = &self.budget.limits;
        let path_bytes = extended.path.unwrap_or_else(|| header.path_bytes().into_owned());
        let path = RootPath::parse(&path_bytes, limits)?;
        let link = extended
            .link
            .or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned))
            .unwrap_or_default();
        let unsupported = |kind| Err(UnpackError::Unsupported { path: path.display(), kind });
        let size = match extended.size {
            Some(size) => size,
            None => header.entry_size().map_err(|_| self.malformed("a size that is none"))?,
        };
        let kind = match header.entry_type() {
            _ if extended.sparse => return unsupported("sparse file"),
            // How folders were written before there was a letter for them.
            EntryType::Regular if path_bytes.ends_with(b"/") => Kind::Folder,
            EntryType::Regular | EntryType::Continuous => Kind::File { size },
            EntryType::Directory => Kind::Folder,
            EntryType::Symlink => {
                if link.is_empty() || link.contains(&0) {
                    return Err(self.malformed("a link to nothing"));
                }
                if link.len() > limits.path_bytes {
                    let allowed = limits.path_bytes as u64;
                    return Err(UnpackError::TooMuch { what: Limit::PathBytes, allowed });
                }
                Kind::Symlink { target: link }
            }
            EntryType::Link => Kind::HardLink { target: RootPath::parse(&link, limits)? },
            EntryType::Fifo => Kind::Fifo,
            EntryType::Char | EntryType::Block => Kind::Device,
            EntryType::GNUSparse => return unsupported("sparse file"),
            _ => return unsupported("unknown"),
        };
        if !matches!(kind, Kind::File { .. }) && size != 0 {
            // Some readers skip such content and some do not: it could hide entries.
            return Err(self.malformed("content where there can be none"));
        }
        self.budget.affordable(size)?;
        self.content = size;
        self.padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;

        let owner = |from_records: Option<u64>, from_header: io::Result<u64>| {
            let owner = match from_records {
                Some(owner) => owner,
                None => from_header.map_err(|_| self.malformed("an owner that is no number"))?,
            };
            // The largest number means "leave as it is".
            u32::try_from(owner)
                .ok()
                .filter(|owner| *owner != u32::MAX)
                .ok_or(UnpackError::Owner { path: path.display(), owner })
        };
        let uid = owner(extended.uid, header.uid())?;
        let gid = owner(extended.gid, header.gid())?;
        let mode = header.mode().map_err(|_| self.malformed("permissions that are none"))? & 0o7777;
        let mtime = extended.mtime.unwrap_or_else(|| {
            // A time nobody can write down is no reason to refuse a file.
            (header.mtime().ok().and_then(|mtime| i64::try_from(mtime).ok()).unwrap_or(0), 0)
        });
        Ok(Entry { path, kind, mode, uid, gid, mtime, attributes: extended.attributes })
    }

    /// The next header; nothing when the block of zeroes is read that ends an archive.
    fn header(&mut self) -> Result<Option<Header>, UnpackError> {
        let mut header = Header::new_old();
        self.fill(header.as_mut_bytes())?;
        if header.as_bytes().iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let (before, rest) = header.as_bytes().split_at(148);
        let spaces = [b' '; 8];
        let sum: u32 = before.iter().chain(&spaces).chain(&rest[8..]).map(|byte| u32::from(*byte)).sum();
        if header.cksum().ok() != Some(sum) {
            return Err(self.malformed("a header with a wrong sum"));
        }
        Ok(Some(header))
    }

    /// The content of a header that describes the next one.
    fn description(&mut self, header: &Header) -> Result<Vec<u8>, UnpackError> {
        let size = header.entry_size().map_err(|_| self.malformed("a size that is none"))?;
        let allowed = self.budget.limits.header_bytes;
        let length = usize::try_from(size).ok().filter(|_| size <= allowed);
        let length = length.ok_or(UnpackError::TooMuch { what: Limit::HeaderBytes, allowed })?;
        let mut content = vec![0; length.next_multiple_of(BLOCK)];
        self.fill(&mut content)?;
        content.truncate(length);
        Ok(content)
    }

    fn skip(&mut self) -> Result<(), UnpackError> {
        let mut left = self.content.saturating_add(self.padding);
        let mut buffer = [0; 8 * BLOCK];
        while left > 0 {
            let now = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            self.fill(&mut buffer[..now])?;
            left -= now as u64;
        }
        (self.content, self.padding) = (0, 0);
        Ok(())
    }

    fn fill(&mut self, mut buffer: &mut [u8]) -> Result<(), UnpackError> {
        while !buffer.is_empty() {
            match self.source.read(buffer) {
                Ok(0) => return Err(UnpackError::CutOff { bytes: self.budget.bytes() }),
                Ok(length) => {
                    self.budget.spend(length)?;
                    buffer = &mut buffer[length..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(UnpackError::Read(error)),
            }
        }
        Ok(())
    }

    fn malformed(&self, what: &'static str) -> UnpackError {
        UnpackError::Malformed { before: self.budget.bytes(), what }
    }
}

/// Long names end with a zero byte that is not part of them.
fn until_zero(mut name: Vec<u8>) -> Vec<u8> {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    name.truncate(end);
    name
}
