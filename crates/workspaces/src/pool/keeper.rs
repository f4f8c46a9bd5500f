//! Keeps pools as they should be.

use std::sync::Arc;
use std::time::Duration;

use emergent_types::WorkspaceStatus;
use futures::StreamExt;
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

use super::{MEMBER_TTL, Stock};
use crate::Place;
use crate::actor::{Actor, Phase, Request};
use crate::creation;
use crate::service::{Context, Entry};

/// So many of one pool are made at once: whoever makes one cold meanwhile does not wait for them all.
const MADE_AT_ONCE: usize = 2;

/// So many are asked at once whether they are alive.
const ASKED_AT_ONCE: usize = 8;

/// Every so many rounds they are asked.
const ROUNDS_BETWEEN_CHECKS: u32 = 6;

/// Looks after all pools, for ever.
pub(crate) async fn keep(context: Arc<Context>) {
    if context.pools.stocks().is_empty() {
        return;
    }
    // However often it is woken in between, its rounds come.
    let mut rounds = tokio::time::interval(context.options.pool_interval);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    rounds.reset();
    let mut round = 0_u32;
    loop {
        for stock in context.pools.stocks() {
            tend(&context, stock).await;
            wake_the_next(&context, stock);
        }
        let is_woken = tokio::select! {
            () = context.pools.woken() => true,
            _ = rounds.tick() => false,
        };
        round = round.wrapping_add(u32::from(!is_woken));
        if !is_woken && round.is_multiple_of(ROUNDS_BETWEEN_CHECKS) {
            check_members(&context).await;
        }
        if !is_woken {
            let_members_rest(&context);
        }
    }
}

/// Makes what is missing and removes what is too much, or would not be made like this any more.
async fn tend(context: &Arc<Context>, stock: &Stock) {
    let _tending = context.pools.tending.lock().await;
    if context.is_closing() {
        return;
    }
    let wanted = creation::member_row(context, &stock.spec).await;
    let named = stock.spec.shape.named(&context.options);
    let cold = creation::cold(context, &wanted, named.isolation).await;
    let members = context.registry.filter(|entry| is_alive_in(entry, &stock.spec.name));
    let (mut good, mut stale) = (Vec::new(), Vec::new());
    for member in members {
        let row = member.row();
        let has_shape = row.resource_limits == wanted.resource_limits
            && row.base_image == wanted.base_image
            && row.min_isolation >= wanted.min_isolation;
        // What is being made has not said yet where. What is on a provider that does not work for the
        // moment waits: it may be what is wanted again in a minute.
        let has_network = row.status != WorkspaceStatus::Ready || row.network == wanted.network;
        let is_where_wanted = row.status != WorkspaceStatus::Ready
            || cold.as_ref().is_none_or(|cold| cold.provider == row.provider)
            || !context.orchestrator.is_healthy(row.provider);
        if has_shape && has_network && is_where_wanted { good.push(member) } else { stale.push(member) }
    }
    // Whose provider cannot make sandboxes ahead of time has none waiting, and says so.
    let unable = cold.as_ref().filter(|cold| !cold.capabilities.warm_pool);
    if let Some(cold) = unable
        && stock.size() > 0
        && stock.may_try()
    {
        stock.note_failure(format!("provider {} makes no sandboxes ahead of time", cold.provider));
    }
    let size = if unable.is_some() { 0 } else { stock.size() as usize };
    let usable = |entry: &&Arc<Entry>| {
        entry.status() != WorkspaceStatus::Ready
            || cold.as_ref().is_none_or(|cold| cold.provider == entry.view.borrow().provider)
    };
    let count = good.iter().filter(usable).count();
    if count > size {
        stale.extend(good.iter().filter(usable).take(count - size).cloned());
    }
    for member in stale {
        stock.withdraw(member.id);
        member.tell(Request::Retire(None));
    }
    let being_made = good.iter().filter(|member| member.status() == WorkspaceStatus::Creating).count();
    let missing = size.saturating_sub(count).min(MADE_AT_ONCE.saturating_sub(being_made));
    if cold.is_none() {
        return;
    }
    for _ in 0..missing {
        if !stock.may_try() {
            return;
        }
        let row = creation::member_row(context, &stock.spec).await;
        context.reach(Place::RefillBeforeTheRow).await;
        match context.store.insert_workspace(&row, 0, None).await {
            Ok(()) => {
                context.reach(Place::RefillRowWritten).await;
                Actor::spawn(context, row, Phase::Creating { reply: None, named });
            }
            Err(error) => {
                tracing::warn!(pool = stock.spec.name, %error, "a pool is not filled: {error}");
                stock.note_failure(error.to_string());
            }
        }
    }
}

fn is_alive_in(entry: &Entry, pool: &str) -> bool {
    let row = entry.view.borrow();
    row.warm_pool.as_deref() == Some(pool) && row.status != WorkspaceStatus::Destroying
}

/// Asks every member whether it is alive, which also tells it that there is a control plane.
async fn check_members(context: &Arc<Context>) {
    let ready = context
        .registry
        .filter(|entry| entry.status() == WorkspaceStatus::Ready && entry.view.borrow().warm_pool.is_some());
    futures::stream::iter(ready)
        .for_each_concurrent(ASKED_AT_ONCE, |entry| async move {
            if entry.presence.resting.is_so() {
                // What stands still is asked when somebody wants it; whether it is there at all, others look.
                entry.presence.activity.note();
                return;
            }
            let Some(client) = entry.presence.agent() else { return };
            let deadline = (emergent_store::now() + MEMBER_TTL).unix_timestamp().unsigned_abs() * 1000;
            match client.part(deadline).await {
                Ok(Some(_)) => entry.presence.activity.note(),
                Ok(None) | Err(_) => {
                    entry.tell(Request::AgentLost);
                }
            }
        })
        .await;
}

/// Whoever comes next does not wait until a sandbox goes on.
fn wake_the_next(context: &Context, stock: &Stock) {
    let next = stock.next(context.options.pool_awake).into_iter();
    for entry in next.filter_map(|id| context.registry.get(id)) {
        if entry.presence.resting.is_so() {
            // Nobody waits for it.
            let (reply, _) = oneshot::channel();
            entry.tell(Request::Wake(reply));
        }
    }
}

/// The others stand still until it is their turn, once they have waited for a while.
fn let_members_rest(context: &Context) {
    let unused_for = context.options.pool_interval;
    let stocks = context.pools.stocks().iter();
    let next: Vec<_> = stocks.flat_map(|stock| stock.next(context.options.pool_awake)).collect();
    let awake = context.registry.filter(|entry| {
        entry.status() == WorkspaceStatus::Ready
            && entry.is_in_pool()
            && !next.contains(&entry.id)
            && !entry.presence.resting.is_so()
            && entry.presence.activity.is_idle_for(unused_for)
    });
    for entry in awake {
        entry.tell(Request::Pause { unused_for });
    }
}

/// Removes every member: nobody will ask for them.
pub(crate) async fn drain(context: &Context, limit: Duration) {
    let drained = async {
        let _tending = context.pools.tending.lock().await;
        let members = context.registry.filter(|entry| entry.view.borrow().warm_pool.is_some());
        let retired = members.into_iter().map(|member| async move {
            let (reply, done) = oneshot::channel();
            if member.ask(Request::Retire(Some(reply))).await.is_ok() {
                let _ = done.await;
            }
        });
        futures::future::join_all(retired).await;
    };
    if tokio::time::timeout(limit, drained).await.is_err() {
        tracing::warn!("some members of pools were not removed in time; the next start does that");
    }
}
