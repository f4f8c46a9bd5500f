//! The ReadPage call: what the read tool shows of a path.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use emergent_protocol::v1;
use emergent_protocol::v1::read_page_response::Content;
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::agent::Shared;
use crate::error::CallError;

use super::mime::{self, SAMPLE_BYTES};
use super::text::PageBuilder;
use super::{blocking, directory, near_names, open_regular, path, read_full};

/// Lines or entries on a page unless the request names another number.
const DEFAULT_LIMIT: u64 = 2000;

/// The most text on a page.
pub(super) const PAGE_BYTES: usize = 50 << 10;

/// Read at once.
const READ_BYTES: usize = 64 << 10;

/// A page of text, a folder's entries, or what a binary file is.
pub(crate) async fn read_page(
    shared: &Arc<Shared>,
    request: v1::ReadPageRequest,
) -> Result<v1::ReadPageResponse, CallError> {
    let path = path::resolve(&shared.config.workspace, &request.path)?;
    let offset = request.offset.max(1);
    let limit = if request.limit == 0 { DEFAULT_LIMIT } else { request.limit };
    let cancelled = CancelOnDrop::default();
    let is_cancelled = cancelled.flag.clone();
    let content = blocking(move || page_of(&path, offset, limit, &is_cancelled)).await?;
    Ok(v1::ReadPageResponse { content: Some(content) })
}

fn page_of(path: &Path, offset: u64, limit: u64, is_cancelled: &AtomicBool) -> Result<Content, CallError> {
    match rustix::fs::stat(path) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_dir() => {
            directory::page(path, offset, limit).map(Content::Directory)
        }
        Ok(_) => file_page(path, offset, limit, is_cancelled),
        Err(Errno::NOENT) => Err(near_names::not_found(path)),
        Err(errno) => Err(CallError::file(path)(errno)),
    }
}

fn file_page(path: &Path, offset: u64, limit: u64, is_cancelled: &AtomicBool) -> Result<Content, CallError> {
    let (file, stat) = open_regular(path)?;
    let mut buffer = vec![0; READ_BYTES];
    let mut builder = PageBuilder::new(offset, limit);
    let mut is_first = true;
    loop {
        // Counting the lines of a huge file takes a while; the caller may not wait so long.
        if is_cancelled.load(Ordering::Relaxed) {
            return Err(CallError::File { path: path.to_owned(), errno: Errno::CANCELED });
        }
        let read = read_full(&file, &mut buffer, path)?;
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
    }
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
