//! How often a workspace may ask. What is asked too often waits; nobody else is held up by it.

use std::num::NonZeroU32;
use std::time::Duration;

use emergent_types::WorkspaceId;
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

/// Requests per second of a workspace. A fetch or a push is two or three.
const PER_SECOND: NonZeroU32 = NonZeroU32::new(5).unwrap();

/// How many at once.
const AT_ONCE: NonZeroU32 = NonZeroU32::new(100).unwrap();

/// How many workspaces are remembered before those that ask no more are forgotten.
const KEPT: usize = 4096;

/// How often workspaces ask.
pub(crate) struct Pace {
    clock: DefaultClock,
    workspaces: RateLimiter<WorkspaceId, HashMapStateStore<WorkspaceId>, DefaultClock>,
}

impl Default for Pace {
    fn default() -> Self {
        let quota = Quota::per_second(PER_SECOND).allow_burst(AT_ONCE);
        Self { clock: DefaultClock::default(), workspaces: RateLimiter::hashmap(quota) }
    }
}

impl Pace {
    /// Returns when it is this workspace's turn again.
    pub(crate) async fn turn(&self, id: WorkspaceId) {
        while let Some(wait) = self.wait(id) {
            tokio::time::sleep(wait).await;
        }
    }

    fn wait(&self, id: WorkspaceId) -> Option<Duration> {
        if self.workspaces.len() > KEPT {
            self.workspaces.retain_recent();
            self.workspaces.shrink_to_fit();
        }
        let refused = self.workspaces.check_key(&id).err()?;
        Some(refused.wait_time_from(self.clock.now()).max(Duration::from_millis(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_too_often_waits_and_nobody_else_does() {
        let (pace, busy) = (Pace::default(), WorkspaceId::generate());
        for _ in 0..AT_ONCE.get() {
            assert_eq!(pace.wait(busy), None);
        }
        assert!((0..5).any(|_| pace.wait(busy).is_some()));
        assert_eq!(pace.wait(WorkspaceId::generate()), None);
    }
}
