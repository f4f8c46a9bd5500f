//! The task that looks after one server.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use emergent_mcp_bridge::{self as bridge, CallError, RawJson};
use emergent_types::ServerHealth;
use emergent_workspaces::{Event, Subject};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use crate::attempt::{Attempt, News, Outcome};
use crate::crash::Crash;
use crate::logs::LogStream;
use crate::registry::{Context, Order, Server, Status};
use crate::supervision::{Action, Input, State, Supervision};

type Probe = Pin<Box<dyn Future<Output = bool> + Send>>;

pub(crate) struct Supervisor {
    context: Arc<Context>,
    server: Arc<Server>,
    orders: mpsc::Receiver<Order>,
    supervision: Supervision,
    attempt: Option<Attempt>,
    /// The bridge of the last program, until there is another.
    bridge: Option<bridge::Ended>,
    probe: Option<Probe>,
    last_crash: Option<Crash>,
    grace: Duration,
    waiting: Vec<oneshot::Sender<()>>,
}

impl Supervisor {
    /// Looks after a server until it is closed.
    pub(crate) async fn run(context: Arc<Context>, server: Arc<Server>, orders: mpsc::Receiver<Order>) {
        let mut supervisor = Self {
            supervision: Supervision::new(server.row().restart_policy),
            grace: context.options.restart_grace,
            context,
            server,
            orders,
            attempt: None,
            bridge: None,
            probe: None,
            last_crash: None,
            waiting: Vec::new(),
        };
        supervisor.start();
        while supervisor.supervision.state != State::Closed {
            let Some(input) = supervisor.next().await else { continue };
            // A change of the policy counts from the next end on.
            supervisor.supervision.policy = supervisor.server.row().restart_policy;
            let (next, action) = supervisor.supervision.clone().step(input, Instant::now());
            supervisor.supervision = next;
            match action {
                Action::Nothing => {}
                Action::Start if supervisor.is_gone() => break,
                Action::Start => supervisor.start(),
                Action::End => supervisor.end(),
            }
            supervisor.show();
        }
        supervisor.waiting.clear();
        supervisor.server.set_bridge(None);
    }

    /// Whether somebody has removed its sandbox without asking: then there is nothing left to look after.
    fn is_gone(&self) -> bool {
        let is_gone = self.context.workspaces.container_type(self.server.id).is_none();
        if is_gone {
            self.context.registry.remove(self.server.id);
            self.context.changed();
        }
        is_gone
    }

    /// What happens next; `None` for what changes nothing.
    async fn next(&mut self) -> Option<Input> {
        let due = match self.supervision.state {
            State::Waiting { until, .. } => Some(until),
            _ => None,
        };
        tokio::select! {
            order = self.orders.recv() => match order {
                Some(Order::Restart) => Some(Input::Restart),
                Some(Order::Settle(reply)) => {
                    self.waiting.push(reply);
                    self.show();
                    None
                }
                Some(Order::Mourn(crash)) => {
                    self.crashed(crash);
                    self.show();
                    None
                }
                Some(Order::Close(grace)) => {
                    self.grace = grace;
                    Some(Input::Close)
                }
                None => Some(Input::Close),
            },
            news = news(&mut self.attempt) => Some(match news {
                News::Up => {
                    self.note("the program is ready");
                    self.watch();
                    Input::Up
                }
                News::Down(outcome) => self.down(outcome),
            }),
            answered = answer(&mut self.probe) => {
                self.watch();
                Some(Input::Asked { answered })
            }
            () = until(due) => Some(Input::Due),
        }
    }

    fn start(&mut self) {
        self.grace = self.context.options.restart_grace;
        let previous = self.bridge.take();
        // Who dropped the bridge's handle wants another one.
        let previous = previous.filter(|_| self.server.bridge().is_some());
        self.attempt = Some(Attempt::begin(self.context.clone(), self.server.clone(), previous));
    }

    fn end(&mut self) {
        self.note("the program is told to end");
        if let Some(attempt) = &self.attempt {
            attempt.end(self.grace);
        }
    }

    /// Asks the program from time to time whether it is there.
    fn watch(&mut self) {
        let (interval, timeout) = (self.context.options.ping_interval, self.context.options.ping_timeout);
        self.probe = self.server.bridge().map(|bridge| -> Probe { Box::pin(ask(bridge, interval, timeout)) });
    }

    fn down(&mut self, outcome: Outcome) -> Input {
        let Outcome { obituary, stderr, bridge } = outcome;
        (self.attempt, self.probe, self.bridge) = (None, None, bridge);
        self.server.generation.send_modify(|generation| *generation += 1);
        let clean = obituary.is_clean();
        if !matches!(self.supervision.state, State::Ending { .. }) {
            self.crashed(obituary.into_crash(stderr));
        }
        Input::Down { clean }
    }

    fn crashed(&mut self, crash: Crash) {
        let name = &self.server.name;
        self.note(&crash.reason);
        tracing::warn!(server = name, workspace = %self.server.id, exit_code = crash.exit_code,
            stderr = crash.stderr.last(), "MCP server {name}: {}", crash.reason);
        metrics::counter!("emergent_mcp_crashes_total", "server" => name.clone()).increment(1);
        self.publish(
            "mcp_server.crashed",
            json!({
                "reason": crash.reason, "exit_code": crash.exit_code, "signal": crash.signal,
                "stderr": crash.stderr,
            }),
        );
        self.last_crash = Some(crash);
    }

    /// Lets everybody see how it is, and tells who should know.
    fn show(&mut self) {
        let before = self.server.status.borrow().clone();
        let state = self.supervision.state;
        let now = Instant::now();
        let is_up = matches!(state, State::Running { .. });
        let status = Status {
            state,
            restarts: self.supervision.restarts,
            last_crash: self.last_crash.clone(),
            up_since: match is_up {
                true => Some(before.up_since.unwrap_or_else(emergent_store::now)),
                false => None,
            },
            next_start: match state {
                State::Waiting { until, .. } => Some(emergent_store::now() + until.duration_since(now)),
                _ => None,
            },
        };
        let (was, is) = (before.health(), status.health());
        self.server.status.send_replace(status);
        if !matches!(state, State::Starting | State::Ending { .. }) {
            for reply in self.waiting.drain(..) {
                // Whoever waits may have gone; there is nothing to tell them then.
                let _gone = reply.send(());
            }
        }
        if was != is {
            self.changed(is, now);
        }
    }

    fn changed(&self, health: ServerHealth, now: Instant) {
        let reason = self.last_crash.as_ref().map(|crash| crash.reason.as_str()).unwrap_or_default();
        let trouble = match (self.supervision.state, health) {
            (State::Waiting { until, .. }, ServerHealth::BackingOff) => {
                let seconds = until.duration_since(now).as_secs();
                Some(format!("ends again and again ({reason}); its next start is in {seconds} s"))
            }
            (_, ServerHealth::Unresponsive) => {
                Some("answers neither ping nor tools/list; it is left running".to_owned())
            }
            _ => None,
        };
        if let Some(trouble) = &trouble {
            self.note(trouble);
        }
        // While it is started once more nothing is known to be well again, and nothing is known of its tools.
        if health != ServerHealth::Starting {
            self.context.changed();
            self.context.workspaces.report_server(&self.server.name, trouble);
        }
        self.publish("mcp_server.health", json!({"health": health.as_str()}));
    }

    fn publish(&self, kind: &'static str, mut data: serde_json::Value) {
        data["workspace_id"] = json!(self.server.id);
        data["name"] = json!(self.server.name);
        data["restart_count"] = json!(self.supervision.restarts);
        let about = Subject::Workspace { id: self.server.id, owner: None };
        self.context.workspaces.publish(Event { kind, about, data });
    }

    fn note(&self, text: &str) {
        self.server.logs.say(LogStream::Supervisor, text);
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // What is not hosted any more is nobody's trouble.
        self.context.workspaces.report_server(&self.server.name, None);
    }
}

async fn news(attempt: &mut Option<Attempt>) -> News {
    match attempt {
        Some(attempt) => attempt.news().await,
        None => std::future::pending().await,
    }
}

async fn answer(probe: &mut Option<Probe>) -> bool {
    match probe {
        Some(probe) => probe.await,
        None => std::future::pending().await,
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// After a while, whether a program answers: a ping, and if not, something that it must be able to do. Some
/// do not know pings.
async fn ask(bridge: bridge::Handle, interval: Duration, timeout: Duration) -> bool {
    sleep(interval).await;
    // One that has ended is no silent one; its end is news of its own.
    let is_silent = |error: &CallError| !matches!(error, CallError::Ended { .. });
    if !bridge.ping(timeout).await.is_err_and(|error| is_silent(&error)) {
        return true;
    }
    let Ok(nothing) = RawJson::parse("{}") else { return true };
    !bridge.request("tools/list", &nothing, Some(timeout)).await.is_err_and(|error| is_silent(&error))
}
