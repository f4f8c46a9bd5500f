//! Ends what has expired, and writes down what was used.

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::activity::FLUSH_INTERVAL;
use crate::actor::Request;
use crate::service::Context;

/// How many expired workspaces one round takes on.
const BATCH: NonZeroU32 = NonZeroU32::new(100).expect("not zero");

/// Looks for expired workspaces for ever. The database says which may have expired; the
/// owner of each knows about uses that are not written yet and about running operations.
pub(crate) async fn sweep_expired(context: Arc<Context>) {
    loop {
        tokio::time::sleep(context.options.sweep_interval).await;
        match context.store.expired(emergent_store::now(), BATCH).await {
            Ok(expired) => {
                for entry in expired.into_iter().filter_map(|id| context.registry.get(id)) {
                    entry.tell(Request::Expire);
                }
            }
            Err(error) => tracing::warn!(%error, "cannot look for expired workspaces: {error}"),
        }
    }
}

/// Writes uses for ever.
pub(crate) async fn flush_activity(context: Arc<Context>) {
    loop {
        tokio::time::sleep(FLUSH_INTERVAL).await;
        flush(&context).await;
    }
}

/// Writes every use that is not written yet, in one transaction.
pub(crate) async fn flush(context: &Context) {
    let used = context.registry.filter(|entry| entry.presence.activity.is_unwritten());
    let touches: Vec<_> =
        used.iter().filter_map(|entry| entry.presence.activity.take_touch(entry.id)).collect();
    if touches.is_empty() {
        return;
    }
    if let Err(error) = context.store.touch_workspaces(&touches).await {
        tracing::warn!(%error, count = touches.len(), "uses of {} workspaces were not written: {error}", touches.len());
        for entry in used {
            entry.presence.activity.put_back();
        }
    }
}
