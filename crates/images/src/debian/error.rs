//! Why no image was made of packages.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// No image could be made; nothing is left of the attempt.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The program that does the work is missing.
    #[error("`{program}` is not installed; on Debian and Ubuntu: apt-get install {program}")]
    NotInstalled {
        /// Its name, which is its package's as well.
        program: &'static str,
    },
    /// A name that is none, and might mean something else to the programs that get it.
    #[error("{name:?} is not the name of a {what}")]
    BadName {
        /// What was expected.
        what: &'static str,
        /// What was given.
        name: String,
    },
    /// Whoever uses the image could read it.
    #[error("the mirror's address has a password in it, which would be left in the image")]
    PasswordInMirror,
    /// The host does not say where its packages come from.
    #[error("this host has no package sources of its own to take over; name a suite (and a mirror)")]
    NoSources,
    /// The programs failed.
    #[error("{program} failed ({status}); its last lines:\n{}", last_lines.join("\n"))]
    Failed {
        /// Which one.
        program: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// What it said last.
        last_lines: Vec<String>,
    },
    /// It was called off.
    #[error("making the image was cancelled")]
    Cancelled,
    /// It took too long.
    #[error("the image was not made within {after:?}; last line: {last_line}")]
    TimedOut {
        /// How long it could take.
        after: Duration,
        /// What was being done.
        last_line: String,
    },
    /// The host's file system or process table refused.
    #[error("{}: {action}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The answer.
        source: io::Error,
    },
}
