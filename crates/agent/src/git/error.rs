//! Why git did not do it.

use std::time::Duration;

use emergent_protocol::FailureCode;

/// The longest message and the most names: a failure travels in HTTP/2 headers, which hold
/// 16 KiB together.
const MAX_MESSAGE: usize = 1000;
const MAX_NAMES: usize = 20;
const MAX_NAME_BYTES: usize = 3000;

/// Why git did not do it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitError {
    /// The request makes no sense.
    #[error("{reason}")]
    Invalid {
        /// Which field of it.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A file that the request names is in no folder of the repository.
    #[error("{} is outside the repository", shortened(.path))]
    Outside {
        /// The field that names it.
        field: &'static str,
        /// As the request names it.
        path: String,
    },
    /// There is no repository around the folder.
    #[error("{folder} is not in a git repository")]
    NotARepository {
        /// Where it was looked for.
        folder: String,
    },
    /// No such branch, tag or commit.
    #[error("no branch, tag or commit is called {name:?}")]
    RefNotFound {
        /// What was asked for.
        name: String,
    },
    /// A branch of this name is there.
    #[error("a branch called {name:?} exists already")]
    BranchExists {
        /// Its name.
        name: String,
    },
    /// There is nothing to commit.
    #[error("there is nothing to commit")]
    NothingToCommit,
    /// Local changes would be lost.
    #[error("local changes to {} would be overwritten; commit or undo them first", counted(*.total))]
    WouldOverwrite {
        /// Some of the files.
        files: Vec<String>,
        /// How many there are.
        total: usize,
    },
    /// git refused, or did something it should not.
    #[error("{message}")]
    Failed {
        /// Its words, without credentials.
        message: String,
        /// The files it is about.
        files: Vec<String>,
    },
    /// The disk is full.
    #[error("there is no space left for what git has to write: {message}")]
    NoSpace {
        /// Its words, without credentials.
        message: String,
        /// The files that are not as they should be.
        files: Vec<String>,
    },
    /// The sandbox has no git.
    #[error("git is not installed in the sandbox")]
    Missing,
}

pub(super) fn counted(files: usize) -> String {
    if files == 1 { "1 file".to_owned() } else { format!("{files} files") }
}

impl GitError {
    /// A field of the request makes no sense.
    pub(super) fn invalid(field: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid { field, reason: reason.into() }
    }

    /// This file leads out of the repository.
    pub(super) fn outside(field: &'static str, path: &str) -> Self {
        let path = path.get(..path.floor_char_boundary(MAX_NAME_BYTES)).unwrap_or(path);
        Self::Outside { field, path: path.to_owned() }
    }

    /// git refused.
    pub(super) fn failed(message: impl AsRef<str>) -> Self {
        Self::Failed { message: shortened(&scrubbed(message.as_ref())), files: Vec::new() }
    }

    /// git refused because of these files.
    pub(super) fn failed_on(message: impl AsRef<str>, files: Vec<String>) -> Self {
        Self::Failed { message: shortened(&scrubbed(message.as_ref())), files: few(files) }
    }

    /// git was ended, because it took longer than this.
    pub(super) fn too_slow(limit: Duration) -> Self {
        Self::failed(format!("git did not end within {limit:?} and was ended"))
    }

    /// git could not write what it had to, to these files among others.
    pub(super) fn no_space(message: impl AsRef<str>, files: Vec<String>) -> Self {
        Self::NoSpace { message: shortened(&scrubbed(message.as_ref())), files: few(files) }
    }

    /// Checking out would lose changes to these files.
    pub(super) fn would_overwrite(files: Vec<String>) -> Self {
        Self::WouldOverwrite { total: files.len(), files: few(files) }
    }

    pub(crate) fn code(&self) -> FailureCode {
        match self {
            Self::Invalid { .. } | Self::Outside { .. } => FailureCode::InvalidRequest,
            Self::NotARepository { .. } => FailureCode::NotARepository,
            Self::RefNotFound { .. } => FailureCode::RefNotFound,
            Self::BranchExists { .. } => FailureCode::AlreadyExists,
            Self::NothingToCommit => FailureCode::NothingToCommit,
            Self::WouldOverwrite { .. } => FailureCode::WouldOverwrite,
            Self::Failed { .. } => FailureCode::GitFailed,
            Self::NoSpace { .. } => FailureCode::NoSpace,
            Self::Missing => FailureCode::ProgramMissing,
        }
    }

    /// The field of the request that this is about.
    pub(crate) fn field(&self) -> &'static str {
        match self {
            Self::Invalid { field, .. } | Self::Outside { field, .. } => field,
            _ => "",
        }
    }

    /// The file or folder that this is about.
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Outside { path, .. } | Self::NotARepository { folder: path } => path,
            _ => "",
        }
    }

    /// The files that this is about.
    pub(crate) fn into_files(self) -> Vec<String> {
        match self {
            Self::WouldOverwrite { files, .. } | Self::Failed { files, .. } | Self::NoSpace { files, .. } => {
                files
            }
            _ => Vec::new(),
        }
    }
}

/// As many as a failure can carry.
fn few(names: Vec<String>) -> Vec<String> {
    let mut room = MAX_NAME_BYTES;
    let fits = |name: &String| {
        let fits = name.len() <= room;
        room = room.saturating_sub(name.len());
        fits
    };
    names.into_iter().take(MAX_NAMES).take_while(fits).collect()
}

fn shortened(text: &str) -> String {
    if text.len() <= MAX_MESSAGE {
        return text.to_owned();
    }
    format!("{} …", text.get(..text.floor_char_boundary(MAX_MESSAGE)).unwrap_or_default())
}

/// The text without what stands before the `@` of a URL: names and passwords.
pub(super) fn scrubbed(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        clean.push_str(before);
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '/' | '\'' | '"' | '?' | '#'));
        let (authority, tail) = after.split_at(end.unwrap_or(after.len()));
        clean.push_str(authority.rsplit_once('@').map_or(authority, |(_, host)| host));
        rest = tail;
    }
    clean + rest
}

/// What git complained about, for people: its errors, without prefixes and hints.
pub(super) fn complaint(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr).replace(":(top,literal)", "").replace(":(literal)", "");
    let lines = || text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let told = |line: &&str| !line.starts_with("hint:") && !line.starts_with("warning:");
    let words = |line: &str| {
        let stripped = ["fatal: ", "error: "].iter().find_map(|prefix| line.strip_prefix(prefix));
        stripped.unwrap_or(line).trim().to_owned()
    };
    let told: Vec<String> = lines().filter(told).map(words).collect();
    if told.is_empty() { "git failed and did not say why".to_owned() } else { told.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_left_out() {
        let check = |text: &str, expect: &str| assert_eq!(scrubbed(text), expect);
        check("https://user:pass@host/x", "https://host/x");
        check("at 'https://token@host' and ssh://a:b@c@d/e", "at 'https://host' and ssh://d/e");
        check("https://host/a@b", "https://host/a@b");
        check("a@b ://", "a@b ://");
        check("https://u:p\u{e4}@h", "https://h");
    }

    #[test]
    fn a_failure_fits_into_headers() {
        let files = vec!["x".repeat(1000); 100];
        let error = GitError::would_overwrite(files);
        assert_eq!(
            error.to_string(),
            "local changes to 100 files would be overwritten; commit or undo them first"
        );
        assert_eq!(error.into_files().len(), 3);
        assert!(GitError::failed("ä".repeat(5000)).to_string().len() < 1100);
    }

    #[test]
    fn hints_are_not_errors() {
        let stderr = b"warning: x\nerror: pathspec ':(top,literal)a' did not match\nhint: y\nfatal: z\n";
        assert_eq!(complaint(stderr), "pathspec 'a' did not match; z");
        assert_eq!(complaint(b"\n"), "git failed and did not say why");
    }
}
