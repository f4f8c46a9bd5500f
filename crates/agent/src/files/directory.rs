//! Folders: the ListDirectory call, and the part of the read tool that shows a folder.

use std::collections::BinaryHeap;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;

use emergent_protocol::v1;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, open, statat};

use crate::agent::Shared;
use crate::error::CallError;

use super::kind::kind_of;
use super::page::PAGE_BYTES;
use super::{blocking, path};

/// Entries in an answer unless the request names another number.
const DEFAULT_LIMIT: usize = 1000;

/// The most entries an answer has: with long names still far below the message limit.
const MAX_LIMIT: usize = 10_000;

/// The first names of a folder, in order, and how many there are in all. Memory depends on
/// how many are wanted, not on how many there are.
struct Names {
    first: Vec<Vec<u8>>,
    total: usize,
    folder: OwnedFd,
}

fn names(path: &Path, wanted: usize) -> Result<Names, CallError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = open(path, flags, Mode::empty()).map_err(CallError::file(path))?;
    let mut total = 0;
    let mut first = BinaryHeap::new();
    for entry in Dir::read_from(&folder).map_err(CallError::file(path))? {
        let entry = entry.map_err(CallError::file(path))?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        total += 1;
        first.push(name.to_vec());
        if first.len() > wanted {
            first.pop();
        }
    }
    Ok(Names { first: first.into_sorted_vec(), total, folder })
}

/// A folder as the read tool shows it: from a 1-based entry on.
pub(super) fn page(path: &Path, offset: u64, limit: u64) -> Result<v1::DirectoryPage, CallError> {
    let skipped = usize::try_from(offset.max(1) - 1).unwrap_or(usize::MAX);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(MAX_LIMIT);
    let names = names(path, skipped.saturating_add(limit))?;
    let mut entries = Vec::new();
    let mut bytes = 0;
    for name in names.first.into_iter().skip(skipped) {
        bytes += name.len() + 2;
        if bytes > PAGE_BYTES && !entries.is_empty() {
            break;
        }
        let is_folder =
            file_type(&names.folder, &name, AtFlags::empty()).is_some_and(|(kind, _)| kind.is_dir());
        let mut name = String::from_utf8_lossy(&name).into_owned();
        if is_folder {
            name.push('/');
        }
        entries.push(name);
    }
    let reached = skipped.saturating_add(entries.len());
    let truncated = reached < names.total;
    Ok(v1::DirectoryPage {
        entries,
        total_entries: names.total as u64,
        truncated,
        next_offset: if truncated { reached as u64 + 1 } else { 0 },
    })
}

/// A folder's entries with what they are.
pub(crate) async fn list_directory(
    shared: &Arc<Shared>,
    request: v1::ListDirectoryRequest,
) -> Result<v1::ListDirectoryResponse, CallError> {
    let path = path::resolve(&shared.config.workspace, &request.path)?;
    let limit = match request.limit as usize {
        0 => DEFAULT_LIMIT,
        limit => limit.min(MAX_LIMIT),
    };
    blocking(move || {
        let names = names(&path, limit)?;
        let truncated = names.first.len() < names.total;
        let entries = names.first.into_iter().map(|name| {
            // One that vanished since it was read is listed all the same, as something.
            let (kind, size) =
                file_type(&names.folder, &name, AtFlags::SYMLINK_NOFOLLOW).unwrap_or((FileType::Unknown, 0));
            v1::DirectoryEntry {
                name: String::from_utf8_lossy(&name).into_owned(),
                kind: kind_of(kind).into(),
                size,
            }
        });
        Ok(v1::ListDirectoryResponse { entries: entries.collect(), truncated })
    })
    .await
}

fn file_type(folder: &OwnedFd, name: &[u8], flags: AtFlags) -> Option<(FileType, u64)> {
    let name = std::ffi::OsString::from_vec(name.to_vec());
    let stat = statat(folder, name, flags).ok()?;
    Some((FileType::from_raw_mode(stat.st_mode), u64::try_from(stat.st_size).unwrap_or(0)))
}
