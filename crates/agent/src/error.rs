//! Why a call failed, and how that travels.

use std::path::{Path, PathBuf};

use emergent_protocol::{FailureCode, v1};
use rustix::io::Errno;
use tonic::Status;

use crate::edit::Closest;
use crate::exec::Step;
use crate::git::GitError;

/// Why a call failed. Becomes a gRPC status with the machine-readable code in its details.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The request makes no sense.
    #[error("{reason}")]
    Invalid {
        /// What is wrong with it, for people.
        reason: String,
    },
    /// One field of the request makes no sense.
    #[error("{reason}")]
    InvalidField {
        /// Its name.
        field: &'static str,
        /// What is wrong with it, for people.
        reason: String,
        /// Where in it, in bytes.
        position: Option<usize>,
    },
    /// The text to replace is not in the file.
    #[error("oldString not found in content{}", looked_at(.closest))]
    NoMatch {
        /// The file.
        path: PathBuf,
        /// The lines that are most like it.
        closest: Closest,
    },
    /// The text to replace is in the file more than once.
    #[error("Found multiple matches for oldString")]
    MultipleMatches {
        /// The file.
        path: PathBuf,
        /// Where.
        lines: Vec<u64>,
    },
    /// What is to be created is there.
    #[error("{}: there is already something", path.display())]
    AlreadyExists {
        /// What was asked for.
        path: PathBuf,
    },
    /// Somebody else changed the file while it was worked on.
    #[error("{}: it was changed by somebody else meanwhile, and is left as that made it", path.display())]
    ChangedMeanwhile {
        /// What was asked for.
        path: PathBuf,
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
    /// The file system has no place for a new file, and what it has cannot be replaced.
    #[error("{}: files can neither be created nor replaced here", path.display())]
    NoNewFiles {
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
    #[error("{subject}: {step}: {errno}{}", way_out(*errno))]
    Launch {
        /// The folder, account or program that it failed on.
        subject: String,
        /// How far it came.
        step: Step,
        /// What the kernel said.
        errno: Errno,
    },
    /// The sandbox has lost its shell, or never had one.
    #[error(
        "the shell of this workspace is missing: neither bash nor sh is in {search_path}; files can still be read \
         and written, and a snapshot or a new workspace has a shell"
    )]
    ShellMissing {
        /// Where it was looked for.
        search_path: String,
    },
    /// The sandbox's shell is there and does not run.
    #[error(
        "the shell of this workspace is broken: {shell} cannot be executed ({errno}): its loader or libraries are \
         missing; files can still be read and written, and a snapshot or a new workspace has a shell"
    )]
    ShellBroken {
        /// Which.
        shell: String,
        /// What the kernel said.
        errno: Errno,
    },
    /// git did not do it.
    #[error(transparent)]
    Git(#[from] GitError),
    /// No background process has this id.
    #[error("no background process has the id {id}")]
    ProcessNotFound {
        /// The id.
        id: u64,
    },
    /// Nobody listens there, or nobody waits any more.
    #[error("{reason}")]
    PortClosed {
        /// Where, and what was said.
        reason: String,
    },
    /// It took longer than it may.
    #[error("{reason}")]
    TookTooLong {
        /// How long, and what would be quicker.
        reason: String,
    },
    /// A bound of the sandbox's kernel is reached.
    #[error("there are already as many {what} as the sandbox may have")]
    TooManyInKernel {
        /// Of what.
        what: &'static str,
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

    /// One field of the request makes no sense.
    pub(crate) fn field(field: &'static str, reason: impl Into<String>) -> Self {
        Self::InvalidField { field, reason: reason.into(), position: None }
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
            Self::Invalid { .. } | Self::InvalidField { .. } | Self::NotRegular { .. } => {
                FailureCode::InvalidRequest
            }
            Self::NoMatch { .. } => FailureCode::NoMatch,
            Self::MultipleMatches { .. } => FailureCode::MultipleMatches,
            Self::AlreadyExists { .. } => FailureCode::AlreadyExists,
            Self::ChangedMeanwhile { .. } => FailureCode::IoError,
            Self::NotFound { .. } => FailureCode::FileNotFound,
            Self::NoNewFiles { .. } => FailureCode::PermissionDenied,
            Self::File { errno, .. } => file_code(*errno),
            Self::Launch { step, errno, .. } => launch_code(*step, *errno),
            Self::ShellMissing { .. } | Self::ShellBroken { .. } => FailureCode::ProgramMissing,
            Self::Git(error) => error.code(),
            Self::ProcessNotFound { .. } => FailureCode::ProcessNotFound,
            Self::PortClosed { .. } => FailureCode::PortClosed,
            Self::TookTooLong { .. } => FailureCode::Timeout,
            Self::TooMany { .. } | Self::TooManyInKernel { .. } => FailureCode::TooMany,
        }
    }
}

/// What ends it when the sandbox has no room for another process, and so none for a `kill` either.
fn way_out(errno: Errno) -> &'static str {
    match errno {
        Errno::AGAIN => {
            "; too many processes run in the workspace: stopping and resuming it ends all of them"
        }
        _ => "",
    }
}

/// What has to be said about lines that are close, besides the lines.
fn looked_at(closest: &Closest) -> String {
    match closest.only_first {
        Some(lines) => format!(" (close lines were looked for in its first {lines} lines only)"),
        None => String::new(),
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
        let shown = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut failure = v1::Failure { message, ..v1::Failure::default() };
        match error {
            CallError::Git(error) => {
                failure.field = error.field().to_owned();
                failure.path = error.path().to_owned();
                failure.suggestions = error.into_files();
            }
            CallError::ShellBroken { shell, .. } => failure.path = shell,
            CallError::NotFound { path, suggestions } => {
                failure.path = shown(path);
                failure.suggestions = suggestions;
            }
            CallError::NotRegular { path }
            | CallError::ChangedMeanwhile { path }
            | CallError::NoNewFiles { path }
            | CallError::File { path, .. }
            | CallError::AlreadyExists { path } => failure.path = shown(path),
            CallError::NoMatch { path, closest } => {
                failure.path = shown(path);
                failure.lines = closest.lines.iter().map(|(line, _)| *line).collect();
                failure.suggestions =
                    closest.lines.into_iter().map(|(line, text)| format!("{line}: {text}")).collect();
            }
            CallError::MultipleMatches { path, lines } => {
                failure.path = shown(path);
                failure.lines = lines;
            }
            CallError::InvalidField { field, position, .. } => {
                failure.field = field.to_owned();
                failure.has_position = position.is_some();
                failure.position = position.unwrap_or(0) as u64;
            }
            CallError::Launch { step: Step::Execute, .. } if code == FailureCode::InvalidRequest => {
                failure.field = "command".to_owned();
            }
            CallError::Launch { step: Step::EnterFolder, .. } => failure.field = "workdir".to_owned(),
            CallError::Launch { step: Step::SwitchUser, .. } => failure.field = "user".to_owned(),
            _ => {}
        }
        code.status(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_sandbox_has_a_way_out() {
        let launch = |errno| CallError::Launch { subject: "bash".to_owned(), step: Step::Fork, errno };
        let message = launch(Errno::AGAIN).to_string();
        assert!(message.contains("stopping and resuming it ends all of them"), "{message}");
        assert!(!launch(Errno::NOMEM).to_string().contains("resuming"));
    }
}
