//! Finding files by name (glob) and lines by what is in them (grep).
//!
//! ```text
//!  walk ── folders in order, .gitignore, no links followed ──► glob: the newest so many
//!                                                         └──► grep: batches of files
//!                                                                ├─ this thread      ┐ in the order
//!                                                                └─ helper threads   ┘ of the walk
//! ```
//!
//! A search ends when nobody waits for it any more, and after [`PATIENCE`]. Memory depends on
//! what is answered and on the largest single folder, not on how many files there are.

mod files;
mod grep;
mod ignored;
mod pattern;
mod walk;

pub(crate) use files::glob;
pub(crate) use grep::grep;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use emergent_protocol::{MAX_PATTERN_BYTES, MAX_SEARCH_ITEMS};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::error::CallError;
use crate::files::{CancelOnDrop, broken_off, plain, resolve, with_near_names};
use crate::threads;
use crate::workspace::Workspace;

/// How long a search may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Items in an answer unless the request names another number.
const DEFAULT_LIMIT: usize = 100;

/// Whether to go on.
#[derive(Clone)]
struct Stop {
    cancelled: Arc<AtomicBool>,
    deadline: Instant,
}

impl Stop {
    /// An error when nobody waits any more, or too long.
    fn check(&self) -> Result<(), CallError> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(CallError::File { path: PathBuf::from("search"), errno: Errno::CANCELED });
        }
        if Instant::now() > self.deadline {
            let seconds = PATIENCE.as_secs();
            let reason = format!("the search takes longer than {seconds} s: narrow `path` or `include`");
            return Err(CallError::TookTooLong { reason });
        }
        Ok(())
    }
}

/// Runs a search on a blocking thread. Dropping the future stops it.
async fn searching<T: Send + 'static>(
    work: impl FnOnce(&Stop) -> Result<T, CallError> + Send + 'static,
) -> Result<T, CallError> {
    let cancelled = CancelOnDrop::default();
    let stop = Stop { cancelled: cancelled.flag.clone(), deadline: Instant::now() + PATIENCE };
    let searched = threads::search(move || {
        stop.check()?;
        work(&stop)
    });
    searched.await.unwrap_or_else(broken_off)
}

/// Where to look: the workspace, or what the request names.
fn place(workspace: &Workspace, path: &str) -> Result<PathBuf, CallError> {
    if path.is_empty() {
        workspace.ensure();
        return Ok(workspace.path().to_owned());
    }
    resolve(workspace.path(), path)
}

fn limit_of(limit: u32) -> Result<usize, CallError> {
    match limit {
        0 => Ok(DEFAULT_LIMIT),
        1..=MAX_SEARCH_ITEMS => Ok(limit as usize),
        _ => Err(CallError::field("limit", format!("the limit is at most {MAX_SEARCH_ITEMS}"))),
    }
}

fn check_pattern(pattern: &str) -> Result<(), CallError> {
    if pattern.is_empty() {
        return Err(CallError::field("pattern", "no pattern is given"));
    }
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(CallError::field("pattern", "the pattern is too long"));
    }
    Ok(())
}

/// What is at a path that a request names; links are followed.
fn kind_at(path: &Path) -> Result<FileType, CallError> {
    let stat = rustix::fs::stat(path).map_err(CallError::file(path)).map_err(with_near_names)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// For fuzzing: understands a pattern and matches it, if it can.
#[cfg(feature = "fuzzing")]
pub(crate) fn try_pattern(pattern: &str, path: &str) {
    if let Ok(pattern) = pattern::Pattern::parse(pattern, "pattern") {
        pattern.matches(path.as_bytes());
        pattern.enters(path.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use emergent_protocol::{FailureCode, KEY_LENGTH, v1};
    use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, open, openat, unlinkat};
    use tonic::Status;

    use super::*;
    use crate::agent::{Agent, Config};

    /// Files that match, without their folder, and whether there is more.
    async fn found(agent: &Agent, pattern: &str) -> (Vec<String>, bool) {
        let request = v1::GlobRequest { pattern: pattern.to_owned(), ..Default::default() };
        let answer = glob(&agent.shared, request).await.unwrap();
        let name = |path: &String| path.rsplit('/').next().unwrap_or_default().to_owned();
        (answer.files.iter().map(name).collect(), answer.truncated)
    }

    async fn searched(agent: &Agent) -> (usize, bool) {
        let request = v1::GrepRequest { pattern: "needle".to_owned(), ..Default::default() };
        let answer = grep(&agent.shared, request).await.unwrap();
        (answer.matches.len(), answer.truncated)
    }

    /// A path that is longer than the system takes names nothing, and what is there is not forgotten.
    #[tokio::test]
    async fn what_lies_too_deep_is_told_of() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("near.txt"), "needle").unwrap();
        let agent = Agent::new(Config::new(root.path(), [0; KEY_LENGTH]));
        let name = "d".repeat(200);
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = open(root.path(), flags, Mode::empty()).unwrap();
        for _ in 0..20 {
            mkdirat(&folder, &name, Mode::from_raw_mode(0o755)).unwrap();
            folder = openat(&folder, &name, flags, Mode::empty()).unwrap();
        }
        let near = vec!["near.txt".to_owned()];
        assert_eq!(found(&agent, "**/*.txt").await, (near.clone(), false));
        assert_eq!(searched(&agent).await, (1, false));
        // A file.
        let long = format!("{name}.txt");
        let mode = Mode::from_raw_mode(0o644);
        drop(openat(&folder, &long, OFlags::CREATE | OFlags::WRONLY, mode).unwrap());
        assert_eq!(found(&agent, "**/*.txt").await, (near.clone(), true));
        assert_eq!(found(&agent, "**/*.rs").await, (vec![], false), "it would not match");
        assert_eq!(searched(&agent).await, (1, true));
        unlinkat(&folder, &long, AtFlags::empty()).unwrap();
        // A folder, in which anything may be.
        mkdirat(&folder, &name, Mode::from_raw_mode(0o755)).unwrap();
        assert_eq!(found(&agent, "**/*.rs").await, (vec![], true));
        assert_eq!(found(&agent, "*.txt").await, (near, false), "it is not looked into");
        assert_eq!(searched(&agent).await, (1, true));
    }

    #[tokio::test]
    async fn a_workspace_that_is_gone_is_empty() {
        let root = tempfile::tempdir().unwrap();
        let workspace = root.path().join("workspace");
        let agent = Agent::new(Config::new(&workspace, [0; KEY_LENGTH]));
        assert_eq!(found(&agent, "*").await, (vec![], false));
        fs::remove_dir(&workspace).unwrap();
        assert_eq!(searched(&agent).await, (0, false));
        fs::remove_dir(&workspace).unwrap();
    }

    #[test]
    fn a_search_that_takes_too_long_says_what_to_do() {
        let stop = |deadline| Stop { cancelled: Arc::default(), deadline };
        assert!(stop(Instant::now() + PATIENCE).check().is_ok());
        let past = Instant::now().checked_sub(Duration::from_secs(1)).expect("the machine has been up");
        let status = Status::from(stop(past).check().expect_err("it is over"));
        let (code, failure) = FailureCode::read(&status).expect("one of ours");
        assert_eq!(code, FailureCode::Timeout);
        assert!(failure.message.ends_with("narrow `path` or `include`"), "{}", failure.message);
    }

    #[test]
    fn patterns_have_a_length() {
        assert!(check_pattern(&"x".repeat(MAX_PATTERN_BYTES)).is_ok());
        assert!(check_pattern(&"x".repeat(MAX_PATTERN_BYTES + 1)).is_err());
        assert!(check_pattern("").is_err());
    }
}
