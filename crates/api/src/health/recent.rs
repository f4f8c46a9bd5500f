//! How the database was a moment ago. Anybody may ask without a token, and as often as they like, so
//! not everybody who asks is a reason to look.

use std::time::{Duration, Instant};

use emergent_store::{Store, StoreError};
use tokio::sync::Mutex;

/// How long an answer holds.
const MOMENT: Duration = Duration::from_millis(250);

/// The latest answer: when it came, and whether it was a good one.
#[derive(Default)]
pub(crate) struct RecentHealth {
    latest: Mutex<Option<(Instant, bool)>>,
}

impl RecentHealth {
    /// Whether the database answers. Whoever asks while somebody looks is told the same.
    pub(crate) async fn check(&self, store: &dyn Store) -> Result<bool, StoreError> {
        let mut latest = self.latest.lock().await;
        if let Some((_, good)) = latest.filter(|(at, _)| at.elapsed() < MOMENT) {
            return Ok(good);
        }
        let checked = store.health().await;
        *latest = Some((Instant::now(), checked.is_ok()));
        checked.map(|()| true)
    }
}
