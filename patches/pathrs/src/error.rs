//! Why a path could not be resolved.

use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// A path could not be resolved or made.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {}: {cause}", .path.display())]
pub struct Error {
    operation: &'static str,
    path: PathBuf,
    cause: Errno,
}

impl Error {
    pub(crate) fn new(operation: &'static str, path: &Path, cause: Errno) -> Self {
        Self { operation, path: path.to_owned(), cause }
    }
}
