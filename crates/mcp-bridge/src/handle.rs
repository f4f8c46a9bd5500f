use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::client::Client;
use crate::command::Task;
use crate::era::{Era, Server};
use crate::error::{CallError, ConnectError};
use crate::handshake::request;
use crate::hub::{Departure, Hub, Job, Patience, Phase, Shared};
use crate::json::{Kind, Malformed, Message, Outcome, RawJson, pick, quoted, text_of};
use crate::rules::{NOT_OFFERED, ToolRules, UNNAMED};
use crate::session::{CallNumber, CallState, ClientId, Session, lock};
use crate::stats::Stats;
use crate::translate::for_modern_server;

/// A bridge, for whoever lets clients in. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The member `result`, as sent.
    Result(RawJson),
    /// The member `error`, as sent.
    Error(RawJson),
}

impl Handle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Lets a client in. It stays until it is dropped, over restarts of the process.
    pub fn connect(&self) -> Result<Client, ConnectError> {
        let hub = &self.shared.hub;
        let mut sessions = lock(&hub.sessions);
        if !hub.options.is_shared() && !sessions.is_empty() {
            return Err(ConnectError::Taken);
        }
        let session = Session::new(ClientId(hub.number()), &hub.options);
        sessions.insert(session.id, session.clone());
        drop(sessions);
        Ok(Client::new(self.shared.clone(), session))
    }

    /// Calls a tool for nobody in particular. `arguments` is an object. `None` for the timeout
    /// takes the bridge's.
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: Option<&RawJson>,
        timeout: Option<Duration>,
    ) -> Result<Reply, CallError> {
        let rules = self.shared.hub.rules();
        if !rules.offers(name) {
            return Ok(refused(name));
        }
        let arguments = arguments.map_or("{}", RawJson::as_str);
        let params = format!(r#""name":{},"arguments":{arguments}"#, quoted(name));
        self.ask("tools/call", &params, timeout, Task::Forward).await
    }

    /// Sends a request of the caller's own. `params` is an object.
    pub async fn request(
        &self,
        method: &str,
        params: &RawJson,
        timeout: Option<Duration>,
    ) -> Result<Reply, CallError> {
        let inside = params.as_str().trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let inside = inside.ok_or(Malformed::Shape("params is not an object"))?;
        if method == "tools/call" {
            let [name] = pick(params.as_str(), ["name"])?;
            match name.and_then(text_of) {
                None => return Ok(refusal(UNNAMED)),
                Some(name) if !self.shared.hub.rules().offers(&name) => return Ok(refused(&name)),
                Some(_) => {}
            }
        }
        self.ask(method, inside, timeout, Task::Forward).await
    }

    /// Whether the server answers, and how fast. It is asked for a discovery where there is no
    /// ping. A ping waits for no turn; an error is an answer too.
    pub async fn ping(&self, timeout: Duration) -> Result<Duration, CallError> {
        let start = Instant::now();
        let patience = Patience::new(timeout);
        let method = match self.shared.ready(&patience).await?.era {
            Era::Legacy => "ping",
            Era::Modern => "server/discover",
        };
        self.ask(method, "", Some(timeout), Task::Probe).await?;
        Ok(start.elapsed())
    }

    /// Waits for the handshake and says what came of it.
    pub async fn ready(&self, timeout: Duration) -> Result<Arc<Server>, CallError> {
        self.shared.ready(&Patience::new(timeout)).await
    }

    /// Where the process is in its life.
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.shared.hub.phase.subscribe()
    }

    /// Changes which tools are offered, from the next list and call on. Clients are told if the
    /// server tells them of such changes.
    pub fn set_tool_rules(&self, rules: ToolRules) {
        self.shared.hub.live.set_tools(rules);
    }

    /// Whether the bridge is over for good: its process is gone and nobody will start another.
    pub fn is_over(&self) -> bool {
        self.shared.commands.is_closed()
    }

    /// What was counted.
    pub fn stats(&self) -> Stats {
        self.shared.hub.counters.read()
    }

    /// How many clients there are.
    pub fn clients(&self) -> usize {
        lock(&self.shared.hub.sessions).len()
    }

    /// Ends the process's task and with it both streams, which asks the server to end. Without a
    /// process it ends the next one.
    pub fn close(&self) {
        self.shared.hub.closing.notify_one();
    }

    async fn ask(
        &self,
        method: &str,
        params: &str,
        timeout: Option<Duration>,
        task: Task,
    ) -> Result<Reply, CallError> {
        let hub = &self.shared.hub;
        let patience = Patience::new(timeout.unwrap_or_else(|| hub.live.call_timeout()));
        let server = self.shared.ready(&patience).await?;
        let number = hub.number();
        let mut message = Message::read_strictly(request(number, method, params))?;
        if server.era == Era::Modern {
            message = for_modern_server(&message, None)?;
        }
        let state = CallState::new(CallNumber(number));
        let mut unless_answered = CancelOnDrop { hub, state: state.clone(), is_answered: false };
        let job = Job { message, task, state, session: None, patience: Some(patience), era: server.era };
        let mut pending = self.shared.submit(job).await?;
        let answered = patience.within(&mut pending.answered).await?;
        unless_answered.is_answered = true;
        let answer = answered.map_err(|_| self.shared.ended(true))??;
        let answer = if method == "tools/list" { hub.rules().filter(answer) } else { answer };
        let message = Message::read(answer)?;
        let member = |span| RawJson::known(message.at(span).to_owned());
        match &message.kind {
            Kind::Response { outcome: Outcome::Result(result), .. } => Ok(Reply::Result(member(result))),
            Kind::Response { outcome: Outcome::Error(error), .. } => Ok(Reply::Error(member(error))),
            _ => Err(Malformed::Shape("the answer is no response").into()),
        }
    }
}

/// Takes a call back whose caller has gone: nobody would take its answer, and with `serialize` the next one waits
/// for it.
struct CancelOnDrop<'h> {
    hub: &'h Hub,
    state: Arc<CallState>,
    is_answered: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.state.cancel();
            self.hub.departures.push(Departure::Call(self.state.number));
        }
    }
}

/// The answer to a call of a tool that is not offered.
fn refused(tool: &str) -> Reply {
    refusal(&ToolRules::refusal(tool))
}

fn refusal(text: &str) -> Reply {
    let text = quoted(text);
    Reply::Error(RawJson::known(format!(r#"{{"code":{NOT_OFFERED},"message":{text}}}"#)))
}
