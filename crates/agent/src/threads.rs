//! The threads for what blocks, and who may occupy how many of them.
//!
//! Ending a command takes one, and must not wait until somebody has read through a huge file:
//!
//! ```text
//!  8 threads ─┬─ 2 for ending commands and looking at processes, whatever else goes on
//!             └─ 6 for file work ─┬─ at most 3 searches
//!                                 ├─ at most 2 that go through a whole file or folder
//!                                 └─ what is short
//! ```
//!
//! Whoever has to wait does so before it occupies a thread.

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// All of them. Few: each counts against the sandbox's process limit.
pub(crate) const THREADS: usize = 8;

/// Kept from file work.
const FOR_PROCESSES: usize = 2;

static FILE_WORK: Semaphore = Semaphore::const_new(THREADS - FOR_PROCESSES);

static SEARCHES: Semaphore = Semaphore::const_new(3);

static LONG_WORK: Semaphore = Semaphore::const_new(2);

/// Runs file work that is soon done; `None` when it panicked, or when the runtime is going away.
pub(crate) async fn file_work<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    // Never closed. The permit goes with the work, which may end later than this future.
    let permit = FILE_WORK.acquire().await.ok();
    let done = spawn_blocking(move || {
        let _permit = permit;
        work()
    });
    done.await.ok()
}

/// The same for what goes through a whole file or folder, however large.
pub(crate) async fn long_work<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    one_of(&LONG_WORK, work).await
}

/// The same for what goes through many.
pub(crate) async fn search<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    one_of(&SEARCHES, work).await
}

async fn one_of<T: Send + 'static>(
    few: &'static Semaphore,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let permit = few.acquire().await.ok();
    file_work(move || {
        let _permit = permit;
        work()
    })
    .await
}
