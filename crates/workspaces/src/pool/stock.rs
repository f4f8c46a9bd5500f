//! The members of one pool.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use emergent_store::WorkspaceRow;
use emergent_types::{WorkspaceId, WorkspaceStatus};

use super::{Miss, PoolSpec};
use crate::service::{Entry, Registry};

/// How long nobody tries to fill a pool after that has failed; doubles up to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(60);

pub(crate) struct Stock {
    pub(crate) spec: PoolSpec,
    size: AtomicU32,
    /// Those that can be had, the oldest first.
    offered: Mutex<VecDeque<WorkspaceId>>,
    trouble: Mutex<Trouble>,
}

#[derive(Default)]
struct Trouble {
    failures: u32,
    until: Option<Instant>,
    reason: Option<String>,
}

impl Stock {
    pub(super) fn new(spec: PoolSpec) -> Self {
        Self { size: AtomicU32::new(spec.size), spec, offered: Mutex::default(), trouble: Mutex::default() }
    }

    pub(crate) fn size(&self) -> u32 {
        self.size.load(Ordering::Acquire)
    }

    pub(super) fn set_size(&self, size: u32) {
        self.size.store(size, Ordering::Release);
    }

    /// How many can be had.
    pub(crate) fn offered_count(&self) -> u32 {
        u32::try_from(self.offered().len()).unwrap_or(u32::MAX)
    }

    /// The next ones that are handed out.
    pub(super) fn next(&self, count: u32) -> Vec<WorkspaceId> {
        self.offered().iter().take(usize::try_from(count).unwrap_or(usize::MAX)).copied().collect()
    }

    /// A member can be had.
    pub(crate) fn offer(&self, id: WorkspaceId) {
        let mut offered = self.offered();
        if !offered.contains(&id) {
            offered.push_back(id);
        }
    }

    /// It cannot, any more. Returns whether it could.
    pub(crate) fn withdraw(&self, id: WorkspaceId) -> bool {
        let mut offered = self.offered();
        let before = offered.len();
        offered.retain(|other| *other != id);
        offered.len() < before
    }

    /// The oldest member that fits, for whoever is the first to ask.
    pub(crate) fn take(
        &self,
        registry: &Registry,
        fits: impl Fn(&WorkspaceRow) -> Result<(), Miss>,
    ) -> Result<Arc<Entry>, Miss> {
        let mut offered = self.offered();
        let mut closest = Miss::Empty;
        let mut position = 0;
        while let Some(id) = offered.get(position) {
            let entry = registry.get(*id).filter(|entry| self.has(entry, WorkspaceStatus::Ready));
            let Some(entry) = entry else {
                offered.remove(position);
                continue;
            };
            let fit = fits(&entry.view.borrow());
            match fit {
                Ok(()) => {
                    offered.remove(position);
                    return Ok(entry);
                }
                Err(miss) => closest = closest.max(miss),
            }
            position += 1;
        }
        Err(closest)
    }

    /// Whether this is a member, in this state.
    pub(crate) fn has(&self, entry: &Entry, status: WorkspaceStatus) -> bool {
        let row = entry.view.borrow();
        row.status == status && row.warm_pool.as_deref() == Some(&self.spec.name)
    }

    pub(crate) fn note_failure(&self, reason: String) {
        let mut trouble = self.trouble();
        let pause = FIRST_PAUSE.saturating_mul(1 << trouble.failures.min(6)).min(LAST_PAUSE);
        trouble.failures = trouble.failures.saturating_add(1);
        trouble.until = Some(Instant::now() + pause);
        trouble.reason = Some(reason);
    }

    pub(crate) fn note_success(&self) {
        *self.trouble() = Trouble::default();
    }

    /// Whether it is worth trying to make one.
    pub(super) fn may_try(&self) -> bool {
        self.trouble().until.is_none_or(|until| until <= Instant::now())
    }

    pub(crate) fn trouble_reason(&self) -> Option<String> {
        self.trouble().reason.clone()
    }

    fn offered(&self) -> MutexGuard<'_, VecDeque<WorkspaceId>> {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
