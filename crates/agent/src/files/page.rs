//! The ReadPage call: what the read tool shows of a path.
//!
//! Small files are read by the runtime's own thread: to wake another and be woken by it takes longer
//! than the reading, under gVisor by a third of a millisecond. The most that anybody else waits for is
//! one read of a disk.
//!
//! To count its lines a file is read to its end. Holes are not: there is no line end in them. What takes
//! longer than [`PATIENCE`] all the same is given up.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use emergent_protocol::v1;
use emergent_protocol::v1::read_page_response::Content;
use rustix::fs::{FileType, SeekFrom, Stat, fstat, seek};
use rustix::io::Errno;

use crate::agent::Shared;
use crate::error::CallError;

use super::mime::{self, SAMPLE_BYTES};
use super::text::PageBuilder;
use super::{blocking, directory, long_blocking, near_names, open_seen, path, read_full};

/// Lines or entries on a page unless the request names another number.
const DEFAULT_LIMIT: u64 = 2000;

/// The most text on a page.
pub(super) const PAGE_BYTES: usize = 50 << 10;

/// Read at once.
const READ_BYTES: usize = 64 << 10;

/// Read in some milliseconds, whatever the disk.
const LARGE_BYTES: i64 = 4 << 20;

/// How long a page may take, less than the control plane waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A page of text, a folder's entries, or what a binary file is.
pub(crate) async fn read_page(
    shared: &Arc<Shared>,
    request: v1::ReadPageRequest,
) -> Result<v1::ReadPageResponse, CallError> {
    let path = path::resolve(&shared.config.workspace, &request.path)?;
    let offset = request.offset.max(1);
    let limit = if request.limit == 0 { DEFAULT_LIMIT } else { request.limit };
    let cancelled = CancelOnDrop::default();
    let stop = Stop { is_cancelled: cancelled.flag.clone(), deadline: Instant::now() + PATIENCE };
    let seen = rustix::fs::stat(&path);
    let content = match &seen {
        Ok(seen) if is_small(seen) => file_page(&path, seen, offset, limit, &stop)?,
        // To count its lines it is read to its end.
        Ok(found) if is_large(found) => {
            long_blocking(move || page_of(&path, seen, offset, limit, &stop)).await?
        }
        Ok(_) | Err(_) => blocking(move || page_of(&path, seen, offset, limit, &stop)).await?,
    };
    Ok(v1::ReadPageResponse { content: Some(content) })
}

/// Whether it is a file that one read is enough for. Where there is nothing in it, more may come out
/// of it all the same, and take its time: the files of /proc are like that.
fn is_small(seen: &Stat) -> bool {
    let size = usize::try_from(seen.st_size).unwrap_or(usize::MAX);
    FileType::from_raw_mode(seen.st_mode).is_file() && size != 0 && size < READ_BYTES
}

/// Whether to read it takes so long that others must not wait for many of its kind.
fn is_large(seen: &Stat) -> bool {
    FileType::from_raw_mode(seen.st_mode).is_file() && seen.st_size > LARGE_BYTES
}

fn page_of(
    path: &Path,
    seen: Result<Stat, Errno>,
    offset: u64,
    limit: u64,
    stop: &Stop,
) -> Result<Content, CallError> {
    match seen {
        Ok(seen) if FileType::from_raw_mode(seen.st_mode).is_dir() => {
            directory::page(path, offset, limit).map(Content::Directory)
        }
        Ok(seen) => file_page(path, &seen, offset, limit, stop),
        Err(Errno::NOENT) => Err(near_names::not_found(path)),
        Err(errno) => Err(CallError::file(path)(errno)),
    }
}

fn file_page(path: &Path, seen: &Stat, offset: u64, limit: u64, stop: &Stop) -> Result<Content, CallError> {
    let (file, stat) = open_seen(path, seen)?;
    let size = usize::try_from(stat.st_size).unwrap_or(0);
    let mut buffer = vec![0; READ_BYTES];
    let mut builder = PageBuilder::new(offset, limit);
    let mut is_first = true;
    let mut position = 0;
    loop {
        stop.check(path)?;
        let read = match is_first {
            true => read_first(&file, &mut buffer, size, path)?,
            false => read_full(&file, &mut buffer, path)?,
        };
        let piece = buffer.get(..read).unwrap_or_default();
        if is_first {
            is_first = false;
            let sample = piece.get(..SAMPLE_BYTES).unwrap_or(piece);
            if mime::is_binary(sample) {
                let size = u64::try_from(stat.st_size).unwrap_or(0);
                return Ok(Content::Binary(v1::BinaryFile { size, mime: mime::of(path, sample).to_owned() }));
            }
        }
        builder.push(piece);
        if read < buffer.len() {
            return Ok(Content::Text(builder.finish()));
        }
        position += read as u64;
        if piece.last() == Some(&0) {
            let hole = skip_hole(&file, position);
            builder.push_hole(hole);
            position += hole;
        }
    }
}

/// Whether to go on.
struct Stop {
    is_cancelled: Arc<AtomicBool>,
    deadline: Instant,
}

impl Stop {
    /// An error when the caller does not wait any more, or too long.
    fn check(&self, path: &Path) -> Result<(), CallError> {
        if self.is_cancelled.load(Ordering::Relaxed) {
            return Err(CallError::File { path: path.to_owned(), errno: Errno::CANCELED });
        }
        if Instant::now() > self.deadline {
            let reason = format!(
                "counting the lines of the file takes longer than {} s: take a part of it, with a command or \
                 as bytes",
                PATIENCE.as_secs()
            );
            return Err(CallError::TookTooLong { reason });
        }
        Ok(())
    }
}

/// Goes on behind the hole that the file stands in; how long it was. Where there is none, or the file
/// system cannot tell, the file stays where it stands.
fn skip_hole(file: &OwnedFd, position: u64) -> u64 {
    let end = match seek(file, SeekFrom::Data(position)) {
        Ok(data) => data,
        // From here to the end there is nothing else.
        Err(Errno::NXIO) => {
            let size = fstat(file).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
            seek(file, SeekFrom::Start(size.max(position))).unwrap_or(position)
        }
        Err(_) => position,
    };
    end.saturating_sub(position)
}

/// As [`read_full`], but does not ask once more where all that is in the file has come.
fn read_first(file: &OwnedFd, buffer: &mut [u8], size: usize, path: &Path) -> Result<usize, CallError> {
    let read = match rustix::io::read(file, &mut *buffer) {
        Ok(read) if read == 0 || read == size => return Ok(read),
        Ok(read) => read,
        Err(Errno::INTR) => 0,
        Err(errno) => return Err(CallError::file(path)(errno)),
    };
    let rest = buffer.get_mut(read..).unwrap_or_default();
    Ok(read + read_full(file, rest, path)?)
}

/// Tells a blocking thread that nobody waits for its result.
#[derive(Default)]
pub(crate) struct CancelOnDrop {
    pub(crate) flag: Arc<AtomicBool>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.flag.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, Write};

    use super::*;

    fn stop(deadline: Instant) -> Stop {
        Stop { is_cancelled: Arc::default(), deadline }
    }

    fn text(path: &Path, offset: u64, limit: u64, stop: &Stop) -> Result<v1::TextPage, CallError> {
        let seen = rustix::fs::stat(path).unwrap();
        match file_page(path, &seen, offset, limit, stop)? {
            Content::Text(page) => Ok(page),
            other => panic!("{other:?}"),
        }
    }

    /// A hole of a tebibyte would take minutes to read.
    #[test]
    fn holes_are_not_read() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("sparse");
        let mut file = File::create(&path).unwrap();
        for number in 1..=20_000 {
            writeln!(file, "line {number}").unwrap();
        }
        file.seek(std::io::SeekFrom::Start(1 << 40)).unwrap();
        write!(file, "end of the long line\nlast\n").unwrap();
        let soon = stop(Instant::now() + Duration::from_secs(10));
        let page = text(&path, 1, 1, &soon).unwrap();
        assert_eq!((page.content.as_str(), page.total_lines, page.next_offset), ("1: line 1", 20_002, 2));
        let page = text(&path, 20_001, 2, &soon).unwrap();
        let expected = format!("20001: {} … [line cut]\n20002: last", "\0".repeat(2000));
        assert_eq!((page.content, page.total_lines, page.truncated), (expected, 20_002, true));
        // And one that ends in a hole.
        file.set_len(1 << 42).unwrap();
        assert_eq!(text(&path, 1, 1, &soon).unwrap().total_lines, 20_003);
    }

    #[test]
    fn what_takes_too_long_is_given_up() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        std::fs::write(&path, "text\n").unwrap();
        let past = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        let given_up = text(&path, 1, 1, &stop(past)).unwrap_err();
        assert!(matches!(given_up, CallError::TookTooLong { .. }), "{given_up}");
    }
}
