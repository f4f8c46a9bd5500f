//! Files of the machine the program runs on.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, ensure};

/// A file that is open for reading.
pub(super) struct LocalFile {
    pub(super) content: tokio::fs::File,
    pub(super) size: u64,
    /// Its permission bits.
    pub(super) mode: u32,
}

/// Opens a regular file.
pub(super) async fn open(path: &Path) -> anyhow::Result<LocalFile> {
    // Looked at first: opening a pipe would wait for somebody to write into it.
    let kind = tokio::fs::metadata(path).await.with_context(|| path.display().to_string())?;
    ensure!(kind.is_file(), "{}: not a regular file", path.display());
    let content = tokio::fs::File::open(path).await.with_context(|| path.display().to_string())?;
    let about = content.metadata().await.with_context(|| path.display().to_string())?;
    ensure!(about.is_file(), "{}: not a regular file", path.display());
    Ok(LocalFile { content, size: about.len(), mode: about.permissions().mode() & 0o777 })
}
