//! Calls of nobody in particular: one request, one answer.

use std::sync::Arc;
use std::time::Duration;

use emergent_mcp_bridge::{self as bridge, CallError, Declaration, RawJson, Reply};
use emergent_types::{ServerHealth, ServerMode};
use serde::Deserialize;

use crate::Handle;
use crate::error::CallFailure;
use crate::registry::Server;
use crate::supervision::State;

/// Methods that make no sense without a client that stays, with the reason.
const REFUSED: [(&str, &str); 6] = [
    ("initialize", "the bridge shakes hands with the server once for everybody"),
    ("server/discover", "the bridge has done that"),
    ("subscriptions/listen", "there is nobody to tell"),
    ("resources/subscribe", "there is nobody to tell"),
    ("resources/unsubscribe", "there is nobody to tell"),
    ("logging/setLevel", "log messages belong to no call"),
];

#[derive(Deserialize)]
struct NamedTool {
    name: String,
}

impl Handle {
    /// Sends a request to a server and waits for its answer. `None` for the timeout takes the server's own. A
    /// call that is given up does not end the program, and its late answer is nobody's.
    pub async fn call(
        &self,
        name_or_id: &str,
        method: &str,
        params: Option<RawJson>,
        timeout: Option<Duration>,
    ) -> Result<Reply, CallFailure> {
        let server = self.find_for_call(name_or_id)?;
        let params = match params {
            Some(params) => params,
            None => RawJson::parse("{}").map_err(|error| CallFailure::Malformed(error.to_string()))?,
        };
        check(&server, method, &params)?;
        let row = server.row();
        let timeout = timeout.unwrap_or(Duration::from_millis(row.call_timeout_ms.into()));
        match row.mode {
            ServerMode::Shared => {
                self.first_start(&server).await;
                let bridge = self.bridge_of(&server)?;
                bridge.request(method, &params, Some(timeout)).await.map_err(|error| failure(&server, error))
            }
            ServerMode::Dedicated => {
                let dedicated = self.dedicated(name_or_id, Some(nobody()?)).await?;
                let asked = dedicated.bridge().request(method, &params, Some(timeout)).await;
                dedicated.end().await;
                asked.map_err(|error| failure(&server, error))
            }
        }
    }

    /// The bridge to a shared server's program, for clients that stay: it lives as long as the server is
    /// hosted, over restarts of its program.
    pub fn bridge(&self, name_or_id: &str) -> Result<bridge::Handle, CallFailure> {
        self.bridge_of(&self.find_for_call(name_or_id)?)
    }

    pub(crate) fn find_for_call(&self, name_or_id: &str) -> Result<Arc<Server>, CallFailure> {
        let found = self.context.registry.find(name_or_id);
        found.ok_or_else(|| CallFailure::NotFound(name_or_id.to_owned()))
    }

    fn bridge_of(&self, server: &Arc<Server>) -> Result<bridge::Handle, CallFailure> {
        self.check_running(server)?;
        server.bridge().ok_or_else(|| unavailable(server, "its program is being started"))
    }

    /// Waits a little for a program that was never started before, as calls do for one that is started again.
    async fn first_start(&self, server: &Server) {
        if server.bridge().is_none() && server.status.borrow().health() == ServerHealth::Starting {
            server.settled(self.context.options.call_grace).await;
        }
    }

    /// Refuses at once what cannot be served soon.
    pub(crate) fn check_running(&self, server: &Arc<Server>) -> Result<(), CallFailure> {
        match server.status.borrow().health() {
            ServerHealth::Ok | ServerHealth::Unresponsive | ServerHealth::Starting => Ok(()),
            ServerHealth::BackingOff | ServerHealth::Ended => {
                Err(unavailable(server, "its program does not run"))
            }
        }
    }
}

/// A client that can do nothing but call.
fn nobody() -> Result<Declaration, CallFailure> {
    let parse = |text: &str| RawJson::parse(text).map_err(|error| CallFailure::Malformed(error.to_string()));
    Ok(Declaration {
        capabilities: parse("{}")?,
        info: parse(concat!(r#"{"name":"emergent","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#))?,
    })
}

fn unavailable(server: &Server, otherwise: &str) -> CallFailure {
    let status = server.status.borrow().clone();
    let crash = status.last_crash.as_ref();
    let reason = crash.map_or_else(|| otherwise.to_owned(), |crash| crash.reason.clone());
    let retry_after = match status.state {
        State::Waiting { until, .. } => Some(until.duration_since(tokio::time::Instant::now())),
        _ => None,
    };
    CallFailure::Unavailable { server: server.name.clone(), health: status.health(), reason, retry_after }
}

fn check(server: &Server, method: &str, params: &RawJson) -> Result<(), CallFailure> {
    let refused = |reason| CallFailure::MethodRefused { method: method.to_owned(), reason };
    if method.starts_with("notifications/") {
        return Err(refused("notifications have no answer"));
    }
    if let Some((_, reason)) = REFUSED.iter().find(|(name, _)| *name == method) {
        return Err(refused(reason));
    }
    if method == "tools/call" {
        let named: NamedTool = serde_json::from_str(params.as_str())
            .map_err(|_| CallFailure::Malformed("params.name must name a tool".to_owned()))?;
        if !server.rules().offers(&named.name) {
            return Err(CallFailure::ToolRefused { server: server.name.clone(), tool: named.name });
        }
    }
    Ok(())
}

pub(crate) fn failure(server: &Server, error: CallError) -> CallFailure {
    let name = server.name.clone();
    match error {
        CallError::TimedOut(after) => CallFailure::TimedOut { server: name, after },
        CallError::Ended { reason, sent } => {
            CallFailure::Ended { server: name, reason: reason.to_string(), sent }
        }
        CallError::Malformed(_) | CallError::TooLong { .. } | CallError::UnsupportedVersion(_) => {
            CallFailure::Malformed(error.to_string())
        }
        CallError::AnswerTooLong { .. } | CallError::Cancelled | CallError::TooManyRounds(_) => {
            CallFailure::Unusable { server: name, reason: error.to_string() }
        }
    }
}
