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
use tokio::sync::Semaphore;

use crate::error::CallError;
use crate::files::{CancelOnDrop, blocking, plain, resolve, with_near_names};

/// How long a search may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Items in an answer unless the request names another number.
const DEFAULT_LIMIT: usize = 100;

/// Searches at once. They hold blocking threads, and commands need some too.
static SEARCHES: Semaphore = Semaphore::const_new(3);

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
    // Never closed. The permit goes with the work, which may end later than this future.
    let permit = SEARCHES.acquire().await.ok();
    blocking(move || {
        let _permit = permit;
        stop.check()?;
        work(&stop)
    })
    .await
}

/// Where to look: the workspace, or what the request names.
fn place(workspace: &Path, path: &str) -> Result<PathBuf, CallError> {
    if path.is_empty() { Ok(workspace.to_owned()) } else { resolve(workspace, path) }
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
    use emergent_protocol::FailureCode;
    use tonic::Status;

    use super::*;

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
