//! Writes an image as a tar stream. A few kilobytes of memory, however large it is.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use tar::{EntryType, Header};

use super::error::MinimalError;
use super::items::{Content, Item};

const BLOCK: usize = 512;
/// What a header holds of a path; longer ones get an entry of their own before it.
const SHORT: usize = 100;

pub(super) struct Writer<'a, W> {
    out: &'a mut W,
    buffer: Vec<u8>,
    /// When the image is made, for what has no time of its own.
    now: u64,
}

impl<'a, W: Write> Writer<'a, W> {
    pub(super) fn new(out: &'a mut W, now: u64) -> Self {
        Self { out, buffer: vec![0; 128 << 10], now }
    }

    pub(super) fn item(&mut self, item: &Item) -> Result<(), MinimalError> {
        let mut header = Header::new_gnu();
        header.set_mode(item.mode);
        header.set_uid(item.owner.into());
        header.set_gid(item.owner.into());
        header.set_mtime(self.now);
        header.set_size(0);
        let link = match &item.content {
            Content::Link(target) | Content::HardLink(target) => target.as_os_str().as_bytes(),
            _ => b"",
        };
        header.set_entry_type(match &item.content {
            Content::Folder => EntryType::Directory,
            Content::Text(_) | Content::HostFile { .. } => EntryType::Regular,
            Content::Link(_) => EntryType::Symlink,
            Content::HardLink(_) => EntryType::Link,
        });
        let mut path = item.path.as_os_str().as_bytes().to_vec();
        if item.content == Content::Folder {
            path.push(b'/');
        }
        self.names(&mut header, &path, link)?;
        match &item.content {
            Content::Folder | Content::Link(_) | Content::HardLink(_) => self.header(header)?,
            Content::Text(text) => {
                header.set_size(text.len() as u64);
                self.header(header)?;
                self.out.write_all(text.as_bytes())?;
                self.pad(text.len() as u64)?;
            }
            Content::HostFile { source, size, mtime } => {
                // Opened first: where this fails, there is no header without its content.
                let file = open(source, *size)?;
                header.set_size(*size);
                header.set_mtime(*mtime);
                self.header(header)?;
                self.copy(file, *size, source)?;
                self.pad(*size)?;
            }
        }
        Ok(())
    }

    /// The end mark.
    pub(super) fn finish(self) -> Result<(), MinimalError> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        self.out.flush()?;
        Ok(())
    }

    fn names(&mut self, header: &mut Header, path: &[u8], link: &[u8]) -> Result<(), MinimalError> {
        for (kind, name) in [(EntryType::GNULongLink, link), (EntryType::GNULongName, path)] {
            if name.len() > SHORT {
                let mut long = Header::new_gnu();
                long.set_entry_type(kind);
                long.set_size(name.len() as u64 + 1);
                long.set_mode(0o644);
                long.set_uid(0);
                long.set_gid(0);
                long.set_mtime(0);
                let marker = b"././@LongLink";
                long.as_old_mut().name[..marker.len()].copy_from_slice(marker);
                self.header(long)?;
                self.out.write_all(name)?;
                self.out.write_all(&[0])?;
                self.pad(name.len() as u64 + 1)?;
            }
        }
        let fields = header.as_old_mut();
        let short = |name: &[u8]| name.len().min(SHORT);
        fields.name[..short(path)].copy_from_slice(&path[..short(path)]);
        fields.linkname[..short(link)].copy_from_slice(&link[..short(link)]);
        Ok(())
    }

    fn header(&mut self, mut header: Header) -> io::Result<()> {
        header.set_cksum();
        self.out.write_all(header.as_bytes())
    }

    /// Copies exactly as much as the header says. Holes become zeroes.
    fn copy(&mut self, file: File, size: u64, path: &Path) -> Result<(), MinimalError> {
        let mut file = file.take(size);
        let mut copied = 0;
        loop {
            let length = match file.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    return Err(MinimalError::Host { action: "reading", path: path.to_owned(), source });
                }
            };
            self.out.write_all(&self.buffer[..length])?;
            copied += length as u64;
        }
        if copied == size { Ok(()) } else { Err(MinimalError::Changed { path: path.to_owned() }) }
    }

    fn pad(&mut self, size: u64) -> io::Result<()> {
        let over = (size % BLOCK as u64) as usize;
        if over == 0 { Ok(()) } else { self.out.write_all(&[0; BLOCK][over..]) }
    }
}

fn open(path: &Path, size: u64) -> Result<File, MinimalError> {
    let failed = |source| MinimalError::Host { action: "reading", path: path.to_owned(), source };
    // Should it have become a pipe meanwhile, opening does not wait.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() || metadata.len() != size {
        return Err(MinimalError::Changed { path: path.to_owned() });
    }
    Ok(file)
}
