//! The Stat call, and what kinds of files there are.

use std::sync::Arc;

use emergent_protocol::v1;
use rustix::fs::{FileType, Stat, lstat, readlink};

use crate::agent::Shared;
use crate::error::CallError;

use super::{blocking, path};

/// What a path names; a link itself unless it is to be followed.
pub(crate) async fn stat(
    shared: &Arc<Shared>,
    request: v1::StatRequest,
) -> Result<v1::StatResponse, CallError> {
    let path = path::resolve(&shared.config.workspace, &request.path)?;
    blocking(move || {
        let looked_at = if request.follow_links { rustix::fs::stat(&path) } else { lstat(&path) };
        let stat = looked_at.map_err(CallError::file(&path))?;
        let kind = kind_of(FileType::from_raw_mode(stat.st_mode));
        let target = match kind {
            v1::FileKind::Symlink => readlink(&path, Vec::new()).map_err(CallError::file(&path))?,
            _ => c"".to_owned(),
        };
        Ok(v1::StatResponse {
            kind: kind.into(),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            modified_unix_ms: modified_unix_ms(&stat),
            target: target.to_string_lossy().into_owned(),
        })
    })
    .await
}

/// When the content changed last, in Unix milliseconds.
pub(super) fn modified_unix_ms(stat: &Stat) -> i64 {
    stat.st_mtime.saturating_mul(1000).saturating_add(stat.st_mtime_nsec as i64 / 1_000_000)
}

pub(super) fn kind_of(file_type: FileType) -> v1::FileKind {
    match file_type {
        FileType::RegularFile => v1::FileKind::File,
        FileType::Directory => v1::FileKind::Directory,
        FileType::Symlink => v1::FileKind::Symlink,
        _ => v1::FileKind::Other,
    }
}
