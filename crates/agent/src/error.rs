//! Why a call failed, and how that travels.

use std::path::{Path, PathBuf};

use emergent_protocol::{FailureCode, v1};
use rustix::io::Errno;
use tonic::Status;

use crate::exec::Step;

/// Why a call failed. Becomes a gRPC status with the machine-readable code in its details.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The request makes no sense.
    #[error("{reason}")]
    Invalid {
        /// What is wrong with it, for people.
        reason: String,
    },
    /// There is no such file; these names are close.
    #[error("{}: no such file or folder", path.display())]
    NotFound {
        /// What was asked for.
        path: PathBuf,
        /// Names in the same folder that were perhaps meant.
        suggestions: Vec<String>,
    },
    /// A pipe, socket or device where only a regular file will do.
    #[error("{}: not a regular file", path.display())]
    NotRegular {
        /// What was asked for.
        path: PathBuf,
    },
    /// The file system said no.
    #[error("{}: {errno}", path.display())]
    File {
        /// What was asked for.
        path: PathBuf,
        /// What it said.
        errno: Errno,
    },
    /// A command could not be started.
    #[error("{subject}: {step}: {errno}")]
    Launch {
        /// The folder, account or program that it failed on.
        subject: String,
        /// How far it came.
        step: Step,
        /// What the kernel said.
        errno: Errno,
    },
    /// No background process has this id.
    #[error("no background process has the id {id}")]
    ProcessNotFound {
        /// The id.
        id: u64,
    },
    /// A bound of the agent's own is reached.
    #[error("there are already {limit} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
}

impl CallError {
    /// The request makes no sense.
    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid { reason: reason.into() }
    }

    /// The file system said no about this path.
    pub(crate) fn file(path: &Path) -> impl FnOnce(Errno) -> Self {
        move |errno| match errno {
            Errno::NOENT => Self::NotFound { path: path.to_owned(), suggestions: Vec::new() },
            errno => Self::File { path: path.to_owned(), errno },
        }
    }

    fn code(&self) -> FailureCode {
        match self {
            Self::Invalid { .. } | Self::NotRegular { .. } => FailureCode::InvalidRequest,
            Self::NotFound { .. } => FailureCode::FileNotFound,
            Self::File { errno, .. } => file_code(*errno),
            Self::Launch { step, errno, .. } => launch_code(*step, *errno),
            Self::ProcessNotFound { .. } => FailureCode::ProcessNotFound,
            Self::TooMany { .. } => FailureCode::TooMany,
        }
    }
}

fn file_code(errno: Errno) -> FailureCode {
    match errno {
        Errno::NOENT => FailureCode::FileNotFound,
        Errno::ISDIR => FailureCode::IsDirectory,
        Errno::NOTDIR => FailureCode::NotADirectory,
        Errno::NOSPC | Errno::DQUOT => FailureCode::NoSpace,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => FailureCode::PermissionDenied,
        Errno::LOOP | Errno::NAMETOOLONG | Errno::INVAL => FailureCode::InvalidRequest,
        _ => FailureCode::IoError,
    }
}

fn launch_code(step: Step, errno: Errno) -> FailureCode {
    match (step, errno) {
        (Step::EnterFolder, Errno::ACCESS) => FailureCode::PermissionDenied,
        (Step::EnterFolder, _) => FailureCode::InvalidRequest,
        (Step::SwitchUser, Errno::PERM) => FailureCode::PermissionDenied,
        // gVisor says "name too long" of an argument list that is too long.
        (Step::Execute, Errno::NOENT | Errno::NOTDIR | Errno::TOOBIG | Errno::NAMETOOLONG) => {
            FailureCode::InvalidRequest
        }
        (Step::Execute, Errno::ACCESS) => FailureCode::PermissionDenied,
        _ => FailureCode::SpawnFailed,
    }
}

impl From<CallError> for Status {
    fn from(error: CallError) -> Self {
        let message = error.to_string();
        let code = error.code();
        let (path, suggestions) = match error {
            CallError::NotFound { path, suggestions } => (path, suggestions),
            CallError::NotRegular { path } | CallError::File { path, .. } => (path, Vec::new()),
            _ => (PathBuf::new(), Vec::new()),
        };
        code.status(v1::Failure {
            message,
            path: path.to_string_lossy().into_owned(),
            suggestions,
            ..v1::Failure::default()
        })
    }
}
