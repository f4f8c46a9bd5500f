//! Connections that nobody uses. Where each costs the host a process they are let go, and the next
//! call makes them again.
//!
//! ```text
//!  held ── not used for a while, nothing runs inside ──► let go: no services on offer, no connection
//!   ▲                                                      │
//!   └── services are on offer ◄── sought ◄── the next call ┘
//! ```
//!
//! Whatever runs inside may want a service of ours, so it counts as use: nothing is let go that
//! anybody could miss.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use emergent_agent_client::AgentError;
use emergent_types::WorkspaceStatus;
use futures::StreamExt;
use time::OffsetDateTime;
use tokio::sync::watch;

use crate::service::{Context, Entry};

/// So many agents are asked at once.
const AT_ONCE: usize = 16;

/// How long a call waits for the services that its command may want. It goes on without them then, as
/// it does while a lost connection is being restored.
const SERVICES_LIMIT: Duration = Duration::from_secs(2);

/// How long somebody who cannot do without services waits for them.
const FIRST_OFFER_LIMIT: Duration = Duration::from_secs(15);

/// Services are on offer.
pub(crate) struct Offered(watch::Sender<bool>);

impl Drop for Offered {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

/// How the owner's side of a workspace is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Connected, or about to be by whoever needs it.
    Held,
    /// Nobody connects until a call comes.
    LetGo,
    /// A call has come, and services are not on offer yet.
    Sought,
}

/// The connection to one workspace's agent.
pub(crate) struct Contact {
    state: watch::Sender<State>,
    /// Whether services are on offer now.
    offered: watch::Sender<bool>,
    /// When its agent was last asked whether it may be let go.
    asked_at: Mutex<Option<Instant>>,
}

impl Default for Contact {
    fn default() -> Self {
        let offered = watch::Sender::new(false);
        Self { state: watch::Sender::new(State::Held), offered, asked_at: Mutex::default() }
    }
}

impl Contact {
    /// The workspace has become ready.
    pub(crate) fn begin(&self) {
        self.state.send_replace(State::Held);
    }

    /// Nobody is to be connected to what stands still.
    pub(crate) fn rest(&self) {
        self.state.send_replace(State::LetGo);
    }

    /// A call comes. Returns when its command finds what it would have found before.
    pub(crate) async fn seek(&self, has_services: bool) {
        let next = if has_services { State::Sought } else { State::Held };
        self.state.send_if_modified(|state| {
            let is_let_go = *state == State::LetGo;
            if is_let_go {
                *state = next;
            }
            is_let_go
        });
        let mut state = self.state.subscribe();
        if *state.borrow() == State::Sought {
            let _ = tokio::time::timeout(SERVICES_LIMIT, state.wait_for(|state| *state == State::Held)).await;
            // Those that come now do not wait for what did not come before.
            self.note_offered();
        }
    }

    /// Services are on offer.
    pub(crate) fn note_offered(&self) {
        self.state.send_if_modified(|state| {
            let was_sought = *state == State::Sought;
            if was_sought {
                *state = State::Held;
            }
            was_sought
        });
    }

    /// Services are on offer, until the answer is dropped.
    pub(crate) fn offering(&self) -> Offered {
        self.offered.send_replace(true);
        Offered(self.offered.clone())
    }

    /// Returns when services are on offer, or it has taken too long.
    pub(crate) async fn until_offered(&self) {
        let mut offered = self.offered.subscribe();
        let _ = tokio::time::timeout(FIRST_OFFER_LIMIT, offered.wait_for(|offered| *offered)).await;
    }

    /// Returns when nobody is to be connected any more.
    pub(crate) async fn let_go(&self) {
        // The sender is this very object.
        let _ = self.state.subscribe().wait_for(|state| *state == State::LetGo).await;
    }

    /// Returns when somebody may connect.
    pub(crate) async fn wanted(&self) {
        let _ = self.state.subscribe().wait_for(|state| *state != State::LetGo).await;
    }

    fn is_due(&self, interval: Duration) -> bool {
        let asked_at = self.asked_at.lock().unwrap_or_else(PoisonError::into_inner);
        *self.state.borrow() != State::LetGo && asked_at.is_none_or(|then| then.elapsed() >= interval)
    }

    fn note_asked(&self) {
        *self.asked_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

/// Lets go of what is idle, for ever.
pub(crate) async fn let_idle_go(context: Arc<Context>) {
    let Some(after) = context.options.stream_idle else { return };
    loop {
        tokio::time::sleep(context.options.sweep_interval).await;
        let now = emergent_store::now();
        let idle = context.registry.filter(|entry| is_idle(entry, after, now));
        futures::stream::iter(idle)
            .for_each_concurrent(AT_ONCE, |entry| {
                let context = &context;
                async move { let_go_unless_needed(context, &entry).await }
            })
            .await;
    }
}

fn is_idle(entry: &Entry, after: Duration, now: OffsetDateTime) -> bool {
    let activity = &entry.presence.activity;
    entry.status() == WorkspaceStatus::Ready
        && activity.running() == 0
        && activity.last_used_at() + after <= now
        && entry.presence.contact.is_due(after)
}

async fn let_go_unless_needed(context: &Context, entry: &Entry) {
    let (id, presence) = (entry.id, &entry.presence);
    let kind = entry.view.borrow().provider;
    let is_costly =
        context.orchestrator.provider(kind).is_some_and(|provider| provider.has_costly_streams(id));
    let Some(client) = presence.agent().filter(|_| is_costly) else { return };
    presence.contact.note_asked();
    let deadline = entry.row().expires_at.map_or(0, |end| end.unix_timestamp().unsigned_abs() * 1000);
    match client.part(deadline).await {
        Ok(Some(0)) => {}
        // Of an older version, which cannot say.
        Ok(_) | Err(AgentError::Unsupported { .. }) => return,
        Err(error) => {
            tracing::debug!(workspace = %id, %error, "the idle stream of workspace {id} is kept: {error}");
            return;
        }
    }
    presence.contact.state.send_replace(State::LetGo);
    if presence.activity.running() > 0 {
        // It has not seen that, and its command may want the services.
        presence.contact.begin();
        return;
    }
    client.disconnect().await;
    tracing::debug!(workspace = %id, "the idle stream of workspace {id} was let go");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_waits_for_the_services_that_were_let_go() {
        let contact = Arc::new(Contact::default());
        contact.seek(true).await;
        contact.state.send_replace(State::LetGo);
        let calls: Vec<_> = (0..2)
            .map(|_| {
                let contact = contact.clone();
                tokio::spawn(async move { contact.seek(true).await })
            })
            .collect();
        contact.wanted().await;
        assert!(calls.iter().all(|call| !call.is_finished()), "no services are on offer");
        contact.note_offered();
        for call in calls {
            call.await.expect("it does not panic");
        }
        assert_eq!(*contact.state.borrow(), State::Held);
    }

    #[tokio::test]
    async fn without_services_there_is_nothing_to_wait_for() {
        let contact = Contact::default();
        contact.state.send_replace(State::LetGo);
        contact.seek(false).await;
        assert_eq!(*contact.state.borrow(), State::Held);
    }
}
