//! What can go wrong with a layered disk.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::template::TemplateError;

/// Why something could not be done with a layered disk.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// There is none, or one that was never finished.
    #[error("{}: there is no disk", folder.display())]
    NotFound {
        /// Where.
        folder: PathBuf,
    },
    /// One is there; it is never overwritten.
    #[error("{}: there is a disk already", folder.display())]
    AlreadyExists {
        /// Where.
        folder: PathBuf,
    },
    /// It has to be mounted for this.
    #[error("{}: the disk is not mounted", folder.display())]
    NotMounted {
        /// Where.
        folder: PathBuf,
    },
    /// Somebody else does something with it, for too long.
    #[error("{}: another operation on the disk has not ended", folder.display())]
    Locked {
        /// Where.
        folder: PathBuf,
    },
    /// A process, another mount namespace or another mount still uses it.
    #[error("{}: the disk is still in use", folder.display())]
    InUse {
        /// Where.
        folder: PathBuf,
    },
    /// It is mounted, over another folder than the one asked for.
    #[error("{}: the disk is mounted over another lower layer", folder.display())]
    OtherLower {
        /// Where.
        folder: PathBuf,
    },
    /// A mount that this crate has not made.
    #[error("{}: something else is mounted here", path.display())]
    ForeignMount {
        /// Where.
        path: PathBuf,
    },
    /// Not the name of a folder directly below a root.
    #[error("{name:?} is not the name of a folder")]
    BadName {
        /// What was given.
        name: String,
    },
    /// The image has more folders at its root than anybody needs.
    #[error("{}: more than {limit} folders at the root", folder.display())]
    TooManyFolders {
        /// Where.
        folder: PathBuf,
        /// How many are taken.
        limit: usize,
    },
    /// Copying would have stopped the sandbox's writes for too long.
    #[error("{}: copying the disk took longer than {limit:?}", folder.display())]
    TooSlow {
        /// Where.
        folder: PathBuf,
        /// How long writes may be stopped.
        limit: Duration,
    },
    /// No formatted disk to copy from.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The kernel has refused one step.
    #[error("{step}: {}: {error}", path.display())]
    Step {
        /// Which.
        step: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl DiskError {
    /// Whether the host's own disk is full.
    pub fn is_out_of_space(&self) -> bool {
        match self {
            Self::Template(error) => error.is_out_of_space(),
            Self::Step { error, .. } => error.kind() == io::ErrorKind::StorageFull,
            _ => false,
        }
    }

    /// Whether the same may succeed a little later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::InUse { .. } | Self::TooSlow { .. })
    }
}

/// Makes the error of one step.
pub(crate) fn at<Error: Into<io::Error>>(step: &'static str, path: &Path) -> impl FnOnce(Error) -> DiskError {
    move |error| DiskError::Step { step, path: path.to_owned(), error: error.into() }
}
