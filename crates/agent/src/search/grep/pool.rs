//! Searching files on several threads, and answering in the order of the walk.
//!
//! ```text
//!  walk ──batch──► jobs ──► helpers, and this thread when it is ahead ──► results
//!                                                                            │ in order
//!                                                     answer ◄───────────────┘
//! ```
//!
//! The walk never runs far ahead of the answer, so memory stays bounded; and once the answer
//! is full everything stops, so that a common word is found at once in a huge tree.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use emergent_protocol::v1;

use crate::error::CallError;

use super::super::Stop;
use super::answer::Answer;
use super::file::{FileSearch, Found, Task};

/// Files in a batch.
const BATCH: usize = 32;

/// Batches between the walk and the answer.
const WINDOW: usize = 16;

/// Threads besides the one that walks. More would not make a disk faster.
const MAX_HELPERS: usize = 3;

/// What a helper thread's stack is.
const STACK_BYTES: usize = 512 << 10;

/// What one file may hold of lines before it is its turn; what has more is searched again then.
const AHEAD_BYTES: usize = 16 << 10;

type Searched = Vec<(PathBuf, Found)>;

/// What the threads share.
struct Shared<'env> {
    task: &'env Task,
    stop: &'env Stop,
    limit: usize,
    state: Mutex<State>,
    /// There are jobs, or no more will come.
    work: Condvar,
    /// There are results.
    done: Condvar,
    /// The answer is full, or the search has failed.
    is_over: AtomicBool,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<(usize, Vec<PathBuf>)>,
    results: BTreeMap<usize, Searched>,
    is_closed: bool,
}

impl Shared<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || self.stop.check().is_err()
    }

    fn search(&self, search: &mut FileSearch<'_>, batch: Vec<PathBuf>) -> Searched {
        let mut searched = Searched::new();
        for path in batch {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let found = search.search(&path, self.limit, AHEAD_BYTES, &|| self.is_over());
            if !found.is_empty() {
                searched.push((path, found));
            }
        }
        searched
    }

    /// A helper's life.
    fn help(&self) {
        let mut search = FileSearch::new(self.task);
        let mut state = self.state();
        loop {
            if let Some((number, batch)) = state.jobs.pop_front() {
                drop(state);
                let searched = self.search(&mut search, batch);
                state = self.state();
                state.results.insert(number, searched);
                self.done.notify_one();
            } else if state.is_closed {
                return;
            } else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Lets the helpers go, whatever happens.
struct CloseOnDrop<'a, 'env>(&'a Shared<'env>);

impl Drop for CloseOnDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
        let mut state = self.0.state();
        state.is_closed = true;
        state.jobs.clear();
        self.0.work.notify_all();
    }
}

/// Takes files in order.
pub(super) struct Pool<'scope, 'env> {
    scope: &'scope thread::Scope<'scope, 'env>,
    shared: &'env Shared<'env>,
    search: FileSearch<'env>,
    answer: Answer,
    batch: Vec<PathBuf>,
    /// Batches that were made, and that were answered.
    made: usize,
    answered: usize,
    helpers: usize,
}

impl<'scope, 'env> Pool<'scope, 'env> {
    /// Searches the files that `walk` adds.
    pub(super) fn run(
        task: &Task,
        limit: usize,
        stop: &Stop,
        walk: impl FnOnce(&mut Pool<'_, '_>) -> Result<(), CallError>,
    ) -> Result<v1::GrepResponse, CallError> {
        let shared = Shared {
            task,
            stop,
            limit,
            state: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
            is_over: AtomicBool::new(false),
        };
        thread::scope(|scope| {
            let _close = CloseOnDrop(&shared);
            let mut pool = Pool {
                scope,
                shared: &shared,
                search: FileSearch::new(task),
                answer: Answer::new(limit),
                batch: Vec::new(),
                made: 0,
                answered: 0,
                helpers: 0,
            };
            walk(&mut pool)?;
            pool.finish()
        })
    }

    /// Adds the next file; whether more are wanted.
    pub(super) fn add(&mut self, path: PathBuf) -> ControlFlow<()> {
        self.batch.push(path);
        if self.batch.len() < BATCH {
            return ControlFlow::Continue(());
        }
        self.submit();
        self.call_helper();
        self.settle(WINDOW)
    }

    /// There is something that cannot be searched.
    pub(super) fn note_incomplete(&mut self) {
        self.answer.note_incomplete();
    }

    fn submit(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        self.shared.state().jobs.push_back((self.made, batch));
        self.made += 1;
        self.shared.work.notify_one();
    }

    /// One more thread for every batch, up to what the machine has. In a sandbox that may not
    /// have more threads there is none, and this one does all.
    fn call_helper(&mut self) {
        if self.made == 1 {
            let processors = thread::available_parallelism().map_or(1, usize::from);
            self.helpers = (processors - 1).min(MAX_HELPERS);
        }
        if self.made <= self.helpers {
            let shared = self.shared;
            let helper = thread::Builder::new().stack_size(STACK_BYTES);
            let _ = helper.spawn_scoped(self.scope, move || shared.help());
        }
    }

    /// Answers what is ready, and sees to it that fewer than `most` batches are not.
    fn settle(&mut self, most: usize) -> ControlFlow<()> {
        loop {
            let mut state = self.shared.state();
            if let Some(searched) = state.results.remove(&self.answered) {
                drop(state);
                self.answered += 1;
                self.take(searched)?;
            } else if self.made - self.answered < most {
                return ControlFlow::Continue(());
            } else if let Some((number, batch)) = state.jobs.pop_front() {
                drop(state);
                let searched = self.shared.search(&mut self.search, batch);
                self.shared.state().results.insert(number, searched);
            } else {
                drop(self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner));
            }
            if self.shared.stop.check().is_err() {
                return ControlFlow::Break(());
            }
        }
    }

    fn take(&mut self, searched: Searched) -> ControlFlow<()> {
        for (path, mut found) in searched {
            if found.is_overfull {
                let (room, bytes) = (self.answer.room(), self.answer.room_bytes());
                found = self.search.search(&path, room, bytes, &|| self.shared.is_over());
            }
            self.answer.add(&path, found)?;
        }
        ControlFlow::Continue(())
    }

    fn finish(mut self) -> Result<v1::GrepResponse, CallError> {
        if !self.batch.is_empty() {
            self.submit();
        }
        let _ = self.settle(1);
        self.shared.stop.check()?;
        Ok(self.answer.finish())
    }
}
