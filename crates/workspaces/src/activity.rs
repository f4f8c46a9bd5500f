//! When workspaces are used. A tool call must not cost a database write, so uses are noted
//! in memory and written together every second.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use emergent_store::Touch;
use emergent_types::WorkspaceId;
use time::OffsetDateTime;

/// How often uses are written.
pub(crate) const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// The use of one workspace.
pub(crate) struct Activity {
    last_used_unix_ms: AtomicI64,
    unwritten: AtomicBool,
    running: AtomicUsize,
    ttl: Option<Duration>,
}

impl Activity {
    pub(crate) fn new(last_used_at: OffsetDateTime, ttl_seconds: Option<u32>) -> Self {
        Self {
            last_used_unix_ms: AtomicI64::new(unix_ms(last_used_at)),
            unwritten: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            ttl: ttl_seconds.map(|seconds| Duration::from_secs(seconds.into())),
        }
    }

    /// Notes a use now.
    pub(crate) fn note(&self) {
        self.last_used_unix_ms.fetch_max(unix_ms(emergent_store::now()), Ordering::AcqRel);
        self.unwritten.store(true, Ordering::Release);
    }

    /// An operation begins; it ends with [`Activity::end`].
    pub(crate) fn begin(&self) {
        self.running.fetch_add(1, Ordering::AcqRel);
        self.note();
    }

    /// An operation ends: a long one counts as use until its last moment.
    pub(crate) fn end(&self) {
        self.note();
        self.running.fetch_sub(1, Ordering::AcqRel);
    }

    /// Operations running now.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    pub(crate) fn last_used_at(&self) -> OffsetDateTime {
        let millis = self.last_used_unix_ms.load(Ordering::Acquire);
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    pub(crate) fn expires_at(&self) -> Option<OffsetDateTime> {
        self.ttl.map(|ttl| self.last_used_at() + ttl)
    }

    /// Whether it has expired and nothing runs in it.
    pub(crate) fn is_over(&self, now: OffsetDateTime) -> bool {
        self.running() == 0 && self.expires_at().is_some_and(|end| end <= now)
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
        let now = emergent_store::now();
        assert!(activity.is_over(now));
        activity.begin();
        assert!(!activity.is_over(now + Duration::from_secs(3600)), "not while an operation runs");
        activity.end();
        assert!(!activity.is_over(now));
        assert!(activity.is_over(now + Duration::from_secs(3600)));
        let id = WorkspaceId::generate();
        let touch = activity.take_touch(id).unwrap();
        assert_eq!(touch.expires_at, Some(touch.last_used_at + Duration::from_secs(60)));
        assert!(activity.take_touch(id).is_none(), "written once");
    }

    #[test]
    fn without_a_ttl_nothing_ends() {
        assert!(!Activity::new(OffsetDateTime::UNIX_EPOCH, None).is_over(emergent_store::now()));
    }
}
