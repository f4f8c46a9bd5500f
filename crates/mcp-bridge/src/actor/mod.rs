//! The task that owns a process.
//!
//! ```text
//!   Client ─┐ commands (bounded)        ┌── outbox ──► writer ──► stdin
//!   Client ─┼──────────────► Actor ─────┤
//!   Handle ─┘   ▲   answers  │  ▲       └── mailboxes (bounded, never waited for)
//!               └────────────┘  └─ messages ◄── reader ◄── stdout
//! ```
//!
//! It never waits for a client or for the server: answers go into a place that is there already,
//! mailboxes turn away what does not fit, and what goes to the server was let in by its space.
//! So the reader is always served, and what is slow only makes its own callers wait.
//!
//! Reading order: `commands` (what clients want), `inbound` (what the server says), `upstream`
//! (what the bridge itself wants of the server); `calls`, `interest` and `level` are the state.

mod calls;
mod commands;
mod inbound;
mod interest;
mod level;
mod upstream;

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep_until};

use calls::{Abandoned, Calls, Effect, Origin};
use interest::{Holder, Interest};
pub(crate) use level::Level;
use level::Levels;
use upstream::Listening;

use crate::command::{Command, Submission};
use crate::era::Server;
use crate::error::{CallError, EndReason};
use crate::handshake::{local_error, shake};
use crate::hub::{Departure, Hub, Phase};
use crate::json::RawJson;
use crate::link::{Heard, Link, ServerIo};
use crate::mailbox::Incoming;
use crate::rules::ToolRules;
use crate::session::{CallNumber, cancelled_notice};

/// How many replies to the server may wait for it to read them.
const MOST_REPLIES: usize = 64;

/// What a process leaves to the next one.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    interest: Interest,
    levels: Levels,
    /// How many processes there were.
    epoch: u64,
    /// Which tools are offered, and whether that is news.
    tools: Option<watch::Receiver<Arc<ToolRules>>>,
}

/// A process after its handshake.
struct Actor {
    hub: Arc<Hub>,
    link: Link,
    server: Arc<Server>,
    calls: Calls,
    carried: Carried,
    listening: Listening,
    replies: Arc<Semaphore>,
}

/// Serves one process from its handshake to its end.
pub(crate) async fn run(
    hub: &Arc<Hub>,
    commands: &mut mpsc::Receiver<Command>,
    io: ServerIo,
    mut carried: Carried,
) -> (Arc<EndReason>, Carried) {
    hub.phase.send_replace(Phase::Starting);
    let mut link = Link::open(io, hub);
    let mut calls = Calls::new(hub.options.serialize, hub.options.settle);
    carried.epoch += 1;
    carried.tools.get_or_insert_with(|| hub.live.tools_changes());
    let shaken = tokio::select! {
        shaken = shake(&mut link, &hub.options, || calls.next_id()) => shaken,
        () = hub.closing.notified() => Err(EndReason::Closed),
    };
    let (reason, calls, mut carried) = match shaken {
        Ok(server) => {
            let replies = Arc::new(Semaphore::new(MOST_REPLIES));
            let server = Arc::new(server);
            let mut actor =
                Actor { hub: hub.clone(), link, server, calls, carried, listening: Listening::Off, replies };
            let reason = actor.serve(commands).await;
            (reason, actor.calls, actor.carried)
        }
        Err(reason) => (reason, calls, carried),
    };
    let reason = Arc::new(reason);
    tracing::info!(%reason, "the MCP server ended");
    hub.phase.send_replace(Phase::Ended { reason: reason.clone(), at: Instant::now() });
    fail_everything(hub, commands, calls, &mut carried.interest, &reason);
    (reason, carried)
}

impl Actor {
    async fn serve(&mut self, commands: &mut mpsc::Receiver<Command>) -> EndReason {
        self.reapply();
        self.hub.phase.send_replace(Phase::Ready(self.server.clone()));
        let hub = self.hub.clone();
        loop {
            let next = self.calls.next_deadline();
            tokio::select! {
                heard = self.link.next() => match heard {
                    Heard::Message(message) => self.hear(message),
                    Heard::TooLong(Some(id)) => self.hear_too_long(id),
                    Heard::TooLong(None) => {}
                    Heard::End(reason) => return reason,
                },
                command = commands.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return EndReason::Closed,
                },
                () = hub.departures.news.notified() => self.see_off(),
                () = hub.closing.notified() => return EndReason::Closed,
                () = changed(&mut self.carried.tools) => self.announce_tools(),
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => self.expire(),
            }
            while let Some(submission) = self.calls.next_in_queue() {
                self.forward(submission);
            }
        }
    }

    /// Ends the calls whose time is over. The server is told, and may ignore it.
    fn expire(&mut self) {
        let now = Instant::now();
        self.calls.settle(now);
        for number in self.calls.overdue(now) {
            self.give_up(number, now, CallError::TimedOut, "the caller stopped waiting");
        }
    }

    /// Forgets clients and calls that left.
    fn see_off(&mut self) {
        for departure in self.hub.departures.take() {
            match departure {
                Departure::Call(number) => {
                    self.stop_listening(number);
                    let cancelled = |_| CallError::Cancelled;
                    self.give_up(number, Instant::now(), cancelled, "the caller cancelled");
                }
                Departure::Client(session) => {
                    let client = session.id;
                    for (_, asked) in session.forget_server() {
                        self.reply(Some(local_error(&asked, -32603, "the client left")));
                    }
                    for number in self.carried.interest.listens_of(client) {
                        self.stop_listening(number);
                    }
                    self.release(Holder::Client(client));
                    self.carried.levels.forget(client);
                    self.apply_level();
                }
            }
        }
    }

    fn give_up(
        &mut self,
        number: CallNumber,
        now: Instant,
        error: impl Fn(std::time::Duration) -> CallError,
        reason: &str,
    ) {
        match self.calls.abandon(number, now) {
            Abandoned::Flying(id, flight) => {
                self.link.say(cancelled_notice(&id.to_string(), reason));
                if let Origin::Client(waiter, effect) = flight.origin {
                    self.undo(&waiter, effect);
                    // A caller that is gone already does not mind.
                    let _gone = waiter.answer.send(Err(error(waiter.timeout)));
                }
            }
            Abandoned::Queued(queued) => {
                let timeout = queued.patience.map(|patience| patience.timeout).unwrap_or_default();
                let _gone = queued.answer.send(Err(error(timeout)));
            }
            Abandoned::Unknown => {}
        }
    }
}

/// Waits until other tools are offered.
async fn changed(tools: &mut Option<watch::Receiver<Arc<ToolRules>>>) {
    if let Some(tools) = tools
        && tools.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// Tells everybody who waits why there will be no answer.
fn fail_everything(
    hub: &Hub,
    commands: &mut mpsc::Receiver<Command>,
    mut calls: Calls,
    interest: &mut Interest,
    reason: &Arc<EndReason>,
) {
    let fail = |sent| CallError::Ended { reason: reason.clone(), sent };
    let refuse = |submission: Submission| {
        let _gone = submission.answer.send(Err(fail(false)));
    };
    let (flying, queued) = calls.drain();
    for flight in flying {
        if let Origin::Client(waiter, effect) = flight.origin {
            // Nobody was told that it is subscribed, so the next process is not told either.
            if let (Effect::Subscribed(uri), Some(session)) = (effect, &waiter.session) {
                interest.retract(&uri, Holder::Client(session.id));
            }
            let _gone = waiter.answer.send(Err(fail(true)));
        }
    }
    queued.into_iter().for_each(refuse);
    while let Ok(command) = commands.try_recv() {
        if let Command::Call(submission) = command {
            refuse(submission);
        }
    }
    for session in hub.sessions() {
        for (id, _) in session.forget_server() {
            let message: RawJson = cancelled_notice(&id.to_string(), "the server ended");
            session.mailbox.push(Incoming::Notification { about: None, message });
        }
    }
}
