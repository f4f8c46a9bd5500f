//! Ends what has expired, and writes down what was used.

use std::sync::Arc;
use std::time::Duration;

use emergent_types::{Lifecycle, WorkspaceStatus};
use tokio::sync::oneshot;

use crate::activity::FLUSH_INTERVAL;
use crate::actor::Request;
use crate::service::{Context, Entry};

/// How many expired workspaces one round takes on.
const BATCH: usize = 100;

/// How long a server that goes down waits for what stands still to go on.
const WAKE_LIMIT: Duration = Duration::from_secs(10);

/// Looks for expired workspaces for ever. Every row has an owner here, and what is known of its use is ahead
/// of what is written, so the database is not asked.
pub(crate) async fn sweep_expired(context: Arc<Context>) {
    loop {
        tokio::time::sleep(context.options.sweep_interval).await;
        for entry in context.registry.filter(may_be_over).into_iter().take(BATCH) {
            entry.tell(Request::Expire);
        }
    }
}

/// Stops what nobody uses, for ever.
pub(crate) async fn stop_idle(context: Arc<Context>) {
    let Some(after) = context.options.idle_stop else { return };
    let is_idle = |entry: &Entry| {
        entry.status() == WorkspaceStatus::Ready
            && !entry.is_in_pool()
            && entry.view.borrow().lifecycle == Lifecycle::Ephemeral
            && entry.presence.activity.is_idle_for(after)
    };
    loop {
        tokio::time::sleep(context.options.sweep_interval).await;
        for entry in context.registry.filter(is_idle).into_iter().take(BATCH) {
            entry.tell(Request::Rest { unused_for: after });
        }
    }
}

/// Lets what nobody uses stand still, for ever.
pub(crate) async fn pause_idle(context: Arc<Context>) {
    let Some(after) = context.options.idle_pause else { return };
    let is_idle = |entry: &Entry| {
        entry.status() == WorkspaceStatus::Ready
            && !entry.is_in_pool()
            && entry.view.borrow().lifecycle == Lifecycle::Ephemeral
            && !entry.presence.resting.is_so()
            && entry.presence.activity.is_idle_for(after)
    };
    loop {
        tokio::time::sleep(context.options.sweep_interval).await;
        for entry in context.registry.filter(is_idle).into_iter().take(BATCH) {
            entry.tell(Request::Pause { unused_for: after });
        }
    }
}

/// Lets everything go on that stands still: without a control plane it ends itself when its time is over, and
/// what stands still cannot.
pub(crate) async fn wake_all(context: &Context) {
    let resting = context.registry.filter(|entry| entry.presence.resting.is_so());
    let woken = resting.into_iter().map(|entry| async move {
        let (reply, done) = oneshot::channel();
        if entry.ask(Request::Wake(reply)).await.is_ok() {
            let _ = done.await;
        }
    });
    if tokio::time::timeout(WAKE_LIMIT, futures::future::join_all(woken)).await.is_err() {
        tracing::warn!("some workspaces stand still until the next start");
    }
}

fn may_be_over(entry: &Entry) -> bool {
    use WorkspaceStatus::{Failed, Ready, Stopped};
    entry.presence.activity.is_over() && matches!(entry.status(), Ready | Stopped | Failed)
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
