//! When workspaces are used. A tool call must not cost a database write, so uses are noted
//! in memory and written together every second.
//!
//! What is shown and written is the time of day. What decides whether a workspace is over is how long it was
//! idle by a clock that nobody can set: a time of day that jumps must not end everything at once.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use emergent_store::Touch;
use emergent_types::WorkspaceId;
use time::OffsetDateTime;

/// How often uses are written.
pub(crate) const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// The use of one workspace.
pub(crate) struct Activity {
    last_used_unix_ms: AtomicI64,
    /// The same by a clock that is not set: milliseconds since this process looked at it first. What was used
    /// before that has a time below zero.
    last_used_steady_ms: AtomicI64,
    unwritten: AtomicBool,
    /// Operations, or [`CLOSED`].
    running: AtomicUsize,
    /// In seconds; [`FOR_EVER`] where it does not end.
    ttl: AtomicU64,
}

const FOR_EVER: u64 = u64::MAX;

/// It is over, and nothing begins any more.
const CLOSED: usize = usize::MAX;

impl Activity {
    pub(crate) fn new(last_used_at: OffsetDateTime, ttl_seconds: Option<u32>) -> Self {
        Self {
            last_used_unix_ms: AtomicI64::new(unix_ms(last_used_at)),
            last_used_steady_ms: AtomicI64::new(steady_ms() - idle_ms(last_used_at)),
            unwritten: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            ttl: AtomicU64::new(ttl_seconds.map_or(FOR_EVER, u64::from)),
        }
    }

    /// From now on it lives so long after each use.
    pub(crate) fn set_ttl(&self, ttl_seconds: Option<u32>) {
        self.ttl.store(ttl_seconds.map_or(FOR_EVER, u64::from), Ordering::Release);
    }

    /// Notes a use now.
    pub(crate) fn note(&self) {
        self.last_used_unix_ms.fetch_max(unix_ms(emergent_store::now()), Ordering::AcqRel);
        self.last_used_steady_ms.fetch_max(steady_ms(), Ordering::AcqRel);
        self.unwritten.store(true, Ordering::Release);
    }

    /// An operation begins; it ends with [`Activity::end`]. Returns whether it may: nothing begins in what is
    /// over.
    pub(crate) fn begin(&self) -> bool {
        let one_more = |running: usize| (running != CLOSED).then(|| running + 1);
        let has_begun = self.running.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok();
        if has_begun {
            self.note();
        }
        has_begun
    }

    /// An operation ends: a long one counts as use until its last moment.
    pub(crate) fn end(&self) {
        self.note();
        self.running.fetch_sub(1, Ordering::AcqRel);
    }

    /// Operations running now.
    pub(crate) fn running(&self) -> usize {
        match self.running.load(Ordering::Acquire) {
            CLOSED => 0,
            running => running,
        }
    }

    pub(crate) fn last_used_at(&self) -> OffsetDateTime {
        let millis = self.last_used_unix_ms.load(Ordering::Acquire);
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    pub(crate) fn expires_at(&self) -> Option<OffsetDateTime> {
        match self.ttl.load(Ordering::Acquire) {
            FOR_EVER => None,
            seconds => Some(self.last_used_at() + Duration::from_secs(seconds)),
        }
    }

    /// Whether it has expired and nothing runs in it.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over_at(steady_ms())
    }

    fn is_over_at(&self, now_steady_ms: i64) -> bool {
        let ttl = match self.ttl.load(Ordering::Acquire) {
            FOR_EVER => return false,
            seconds => i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX),
        };
        let idle = now_steady_ms.saturating_sub(self.last_used_steady_ms.load(Ordering::Acquire));
        self.running() == 0 && idle >= ttl
    }

    /// If nobody has used it for so long, nothing begins in it until it is [opened](Self::reopen) again.
    pub(crate) fn close_if_idle(&self, time: Duration) -> bool {
        self.is_idle_for(time)
            && self.running.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok()
            && {
                // A call may have come and gone since it was looked at.
                let is_still_idle = self.is_idle_for(time);
                if !is_still_idle {
                    self.reopen();
                }
                is_still_idle
            }
    }

    /// Lets operations begin again.
    pub(crate) fn reopen(&self) {
        let _ = self.running.compare_exchange(CLOSED, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether nobody has used it for so long.
    pub(crate) fn is_idle_for(&self, time: Duration) -> bool {
        let idle = steady_ms().saturating_sub(self.last_used_steady_ms.load(Ordering::Acquire));
        self.running() == 0 && u128::try_from(idle).is_ok_and(|idle| idle >= time.as_millis())
    }

    /// If it is over, nothing begins in it from now on. There is no moment in between: a call that was let in
    /// is not cut off.
    pub(crate) fn close_if_over(&self) -> bool {
        self.is_over()
            && match self.running.compare_exchange(0, CLOSED, Ordering::AcqRel, Ordering::Acquire) {
                // A call may have come and gone since it was looked at.
                Ok(_) if !self.is_over() => {
                    self.reopen();
                    false
                }
                Ok(_) => true,
                Err(running) => running == CLOSED,
            }
    }

    /// Whether there is something to be written.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.unwritten.load(Ordering::Acquire)
    }

    /// What is to be written, once.
    pub(crate) fn take_touch(&self, id: WorkspaceId) -> Option<Touch> {
        self.unwritten.swap(false, Ordering::AcqRel).then(|| Touch {
            id,
            last_used_at: self.last_used_at(),
            expires_at: self.expires_at(),
        })
    }

    /// A write failed: try again next time.
    pub(crate) fn put_back(&self) {
        self.unwritten.store(true, Ordering::Release);
    }
}

/// How long ago something was by the time of day, and never less than nothing.
fn idle_ms(last_used_at: OffsetDateTime) -> i64 {
    unix_ms(emergent_store::now()).saturating_sub(unix_ms(last_used_at)).max(0)
}

/// Milliseconds that nobody can set.
fn steady_ms() -> i64 {
    static FIRST_LOOK: LazyLock<Instant> = LazyLock::new(Instant::now);
    i64::try_from(FIRST_LOOK.elapsed().as_millis()).unwrap_or(i64::MAX)
}

fn unix_ms(instant: OffsetDateTime) -> i64 {
    i64::try_from(instant.unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_moves_the_end_and_a_running_operation_holds_it() {
        let long_ago = OffsetDateTime::UNIX_EPOCH;
        let activity = Activity::new(long_ago, Some(60));
        let in_an_hour = || steady_ms() + 3_600_000;
        assert!(activity.is_over());
        assert!(activity.begin());
        assert!(!activity.is_over_at(in_an_hour()), "not while an operation runs");
        activity.end();
        assert!(!activity.is_over());
        assert!(activity.is_over_at(in_an_hour()));
        let id = WorkspaceId::generate();
        let touch = activity.take_touch(id).unwrap();
        assert_eq!(touch.expires_at, Some(touch.last_used_at + Duration::from_secs(60)));
        assert!(activity.take_touch(id).is_none(), "written once");
    }

    #[test]
    fn without_a_ttl_nothing_ends() {
        assert!(!Activity::new(OffsetDateTime::UNIX_EPOCH, None).is_over());
    }

    #[test]
    fn a_time_of_day_that_jumps_ends_nothing_and_keeps_nothing_alive() {
        let activity = Activity::new(emergent_store::now(), Some(60));
        // As if the clock had been set forward, and back, since.
        for jump in [-86_400_000, 86_400_000] {
            activity.last_used_unix_ms.store(unix_ms(emergent_store::now()) + jump, Ordering::Release);
            assert!(!activity.is_over_at(steady_ms() + 59_000));
            assert!(activity.is_over_at(steady_ms() + 61_000));
        }
        // A use that is later than now says nothing about how long it was idle.
        let from_the_future = emergent_store::now() + Duration::from_secs(86_400);
        assert!(Activity::new(from_the_future, Some(60)).is_over_at(steady_ms() + 61_000));
    }

    #[test]
    fn what_is_over_lets_nothing_in_and_what_runs_is_not_over() {
        let activity = Activity::new(OffsetDateTime::UNIX_EPOCH, Some(60));
        assert!(activity.close_if_over() && activity.close_if_over());
        assert!(!activity.begin(), "it is closed");
        assert_eq!(activity.running(), 0);
        let rested = Activity::new(OffsetDateTime::UNIX_EPOCH, None);
        assert!(rested.close_if_idle(Duration::from_secs(60)) && !rested.begin());
        rested.reopen();
        assert!(rested.begin() && !rested.close_if_idle(Duration::ZERO));
        let busy = Activity::new(OffsetDateTime::UNIX_EPOCH, Some(60));
        assert!(busy.begin() && !busy.close_if_over() && busy.begin());
    }
}
