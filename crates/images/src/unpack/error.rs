//! Why an archive was not unpacked.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Unpacking failed; nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// Whoever sends the archive failed or went away.
    #[error("the archive could not be read: {0}")]
    Read(#[source] io::Error),
    /// The bytes end before the archive does.
    #[error("the archive ends in the middle, after {bytes} bytes")]
    CutOff {
        /// How many came.
        bytes: u64,
    },
    /// Not an archive, or a damaged one.
    #[error("the archive is malformed before byte {before}: {what}")]
    Malformed {
        /// Where reading had come to.
        before: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A kind of entry that the export of a root has no use for.
    #[error("{}: an entry of kind `{kind}` is not unpacked", path.display())]
    Unsupported {
        /// Its path in the archive.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// A path that is absolute, has `..` in it, or is none.
    #[error("{}: not a path below the root", path.display())]
    Outside {
        /// The path as the archive has it.
        path: PathBuf,
    },
    /// The way to an entry leads over a link or a file.
    #[error("{}: the way there leads over something that is no folder", path.display())]
    NotThroughFolders {
        /// The path in the archive.
        path: PathBuf,
    },
    /// An entry that is no folder has the name of a folder.
    #[error("{}: a folder is in the way", path.display())]
    FolderInTheWay {
        /// The path in the archive.
        path: PathBuf,
    },
    /// A hard link to something that was not unpacked before as a file.
    #[error("{}: a hard link to {}, which is no file of this archive", path.display(), target.display())]
    HardLink {
        /// The path in the archive.
        path: PathBuf,
        /// What it leads to.
        target: PathBuf,
    },
    /// An owner that no file can have.
    #[error("{}: there is no owner {owner}", path.display())]
    Owner {
        /// The path in the archive.
        path: PathBuf,
        /// The number in the archive.
        owner: u64,
    },
    /// More than is allowed.
    #[error("the archive has more than {allowed} {what}")]
    TooMuch {
        /// Of what.
        what: Limit,
        /// How many there may be.
        allowed: u64,
    },
    /// It took too long.
    #[error("the archive was not unpacked within {after:?}")]
    TimedOut {
        /// How long it could take.
        after: Duration,
    },
    /// Somebody else is unpacking into this folder.
    #[error("{}: is being unpacked already", folder.display())]
    Busy {
        /// The folder to be made.
        folder: PathBuf,
    },
    /// The folder is there.
    #[error("{}: exists already", folder.display())]
    Exists {
        /// The folder to be made.
        folder: PathBuf,
    },
    /// Accounts of the host could run the programs of the image, some of which are set-uid.
    #[error(
        "{}: accounts other than its owner can enter it (mode {mode:o}); set-uid programs of images lie there, so it must be 0700",
        folder.display()
    )]
    Exposed {
        /// The folder that would hold the unpacked one.
        folder: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file system refused.
    #[error("{}: {action}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what: a path of the host, or one below the root.
        path: PathBuf,
        /// The answer.
        source: io::Error,
    },
}

impl UnpackError {
    /// Whether the same archive may be unpacked at another time.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Read(_) | Self::CutOff { .. } | Self::TimedOut { .. } | Self::Busy { .. })
    }
}

/// What an archive may not have too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Headers and folders.
    Entries,
    /// Bytes in all.
    Bytes,
    /// Bytes of a path.
    PathBytes,
    /// Folders below each other.
    Depth,
    /// Bytes of an extended header.
    HeaderBytes,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Entries => "entries",
            Self::Bytes => "bytes",
            Self::PathBytes => "bytes in a path",
            Self::Depth => "folders below each other",
            Self::HeaderBytes => "bytes in an extended header",
        })
    }
}

/// Names what was tried and on what, for the kernel's answer.
pub(super) trait Trying<T> {
    fn trying(self, action: &'static str, path: &Path) -> Result<T, UnpackError>;
}

impl<T, E: Into<io::Error>> Trying<T> for Result<T, E> {
    fn trying(self, action: &'static str, path: &Path) -> Result<T, UnpackError> {
        self.map_err(|source| UnpackError::Io { action, path: path.to_owned(), source: source.into() })
    }
}
