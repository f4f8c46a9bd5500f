//! Waiting for something that is about to be true.

use std::time::Duration;

use tokio::time::Instant;

/// How often to look.
const INTERVAL: Duration = Duration::from_millis(50);

/// Looks until `probe` gives something, for at most `limit`; says how long it took.
///
/// # Panics
///
/// When it does not become true in time.
pub async fn eventually<T>(
    what: &str,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> (T, Duration) {
    let begun = Instant::now();
    loop {
        if let Some(found) = probe().await {
            return (found, begun.elapsed());
        }
        assert!(begun.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(INTERVAL).await;
    }
}
