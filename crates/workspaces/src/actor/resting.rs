//! Standing still while nobody is there, and going on when somebody comes.
//!
//! ```text
//!  ready ── nobody used it for a while, nothing runs in it ─► ready, and stands still
//!    ▲                                                              │
//!    └── goes on ◄── a call, a claim, a snapshot, a stop ───────────┘
//! ```
//!
//! An idle sandbox under gVisor takes some of a processor all the time. One that stands still takes none, and going
//! on is a matter of milliseconds. Its connection stays: nothing is asked over it meanwhile, so nobody finds it
//! dead. Its lease does not run out, because it counts from when its connection is gone, and it learns that when
//! it goes on.

use std::time::{Duration, Instant};

use super::Actor;

/// An agent that takes longer to say whether anything runs is busy.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

impl Actor {
    /// Lets the sandbox stand still, if nobody has used it for so long and nothing runs in it.
    pub(super) async fn stand_still(&mut self, unused_for: Duration) {
        let presence = self.presence.clone();
        let was_tried = self.rested_in_vain_at.is_some_and(|then| then.elapsed() < unused_for);
        if was_tried || presence.resting.is_so() || !presence.activity.is_idle_for(unused_for) {
            return;
        }
        let (Ok(provider), Some(client)) = (self.provider(), presence.agent()) else { return };
        self.rested_in_vain_at = Some(Instant::now());
        if !provider.capabilities().await.suspend {
            return;
        }
        let asked = tokio::time::timeout(ANSWER_LIMIT, client.part(self.deadline_unix_ms())).await;
        // Whatever runs there runs on. Nor is anybody held of whom nothing is known.
        if !matches!(asked, Ok(Ok(Some(0)))) || !presence.resting.begin(&presence.activity) {
            return;
        }
        // No service is on offer, so nobody asks over the connection whether it is alive.
        presence.contact.rest();
        if !self.is_in_pool() && provider.has_costly_streams(self.id) {
            client.disconnect().await;
        }
        match provider.suspend(self.id).await {
            Ok(()) => {
                self.rested_in_vain_at = None;
                tracing::debug!(workspace = %self.id, "workspace {} stands still", self.id);
            }
            Err(error) => {
                tracing::warn!(workspace = %self.id, %error, "workspace {} does not stand still: {error}", self.id);
                presence.resting.end();
                presence.contact.begin();
                self.is_in_doubt = true;
            }
        }
    }

    /// Lets it go on where it stands still. Returns whether it does: otherwise its agent has to be looked after.
    pub(super) async fn go_on(&mut self) -> bool {
        if !self.presence.resting.is_so() {
            return true;
        }
        let clock = Instant::now();
        let woken = match self.provider() {
            Ok(provider) => provider.wake(self.id).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        self.presence.resting.end();
        match woken {
            Ok(()) => {
                let took = clock.elapsed();
                tracing::debug!(workspace = %self.id, ?took, "workspace {} goes on", self.id);
                true
            }
            Err(reason) => {
                tracing::warn!(workspace = %self.id, "workspace {} does not go on: {reason}", self.id);
                self.is_in_doubt = true;
                false
            }
        }
    }

    fn is_in_pool(&self) -> bool {
        self.published.borrow().warm_pool.is_some()
    }
}
