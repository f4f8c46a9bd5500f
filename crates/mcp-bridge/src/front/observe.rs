use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use tokio::time::Instant;

use super::connector::Principal;
use crate::error::CallError;
use crate::json::{Kind, Message, Outcome, RawJson, pick, text_of};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// How a call of a tool ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// The tool did its work, or asked for input.
    Ok,
    /// The tool says that it failed.
    ToolError,
    /// There is an error in place of a result, of the server's or of the bridge's.
    ProtocolError,
    /// The server's process ended before it had answered.
    Ended,
    /// There was no answer in time.
    Timeout,
    /// The client took it back.
    Cancelled,
}

/// What is told of a call of a tool. Arguments and results are nobody else's business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallReport {
    /// Who called.
    pub principal: Principal,
    /// The tool, by the name it was called by.
    pub tool: String,
    /// What the request named itself in `X-Request-Id`.
    pub request_id: Option<String>,
    /// How it ended.
    pub outcome: CallOutcome,
    /// How long it took.
    pub duration: Duration,
}

/// Is told of every call of a tool, once, when it is over. It must not block.
pub trait Observer: Send + Sync + 'static {
    /// A call is over.
    fn called(&self, report: CallReport);
}

/// A call that is observed. One that nobody ends was taken back.
pub(super) struct Watched(Option<Open>);

struct Open {
    observer: Arc<dyn Observer>,
    principal: Principal,
    tool: String,
    request_id: Option<String>,
    start: Instant,
}

impl Watched {
    pub(super) fn new(
        observer: Option<&Arc<dyn Observer>>,
        principal: &Principal,
        message: &Message,
        headers: &HeaderMap,
    ) -> Self {
        let is_call = matches!(&message.kind, Kind::Request { method, .. } if method == "tools/call");
        Self(observer.filter(|_| is_call).map(|observer| Open {
            observer: observer.clone(),
            principal: principal.clone(),
            tool: message.param("name").and_then(text_of).unwrap_or_default(),
            request_id: headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).map(str::to_owned),
            start: Instant::now(),
        }))
    }

    pub(super) fn over(&mut self, answer: &Result<RawJson, CallError>) {
        self.report(match answer {
            Ok(answer) => outcome_of(answer),
            Err(CallError::TimedOut(_)) => CallOutcome::Timeout,
            Err(CallError::Cancelled) => CallOutcome::Cancelled,
            Err(CallError::Ended { .. }) => CallOutcome::Ended,
            Err(_) => CallOutcome::ProtocolError,
        });
    }

    fn report(&mut self, outcome: CallOutcome) {
        if let Some(Open { observer, principal, tool, request_id, start }) = self.0.take() {
            observer.called(CallReport { principal, tool, request_id, outcome, duration: start.elapsed() });
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.report(CallOutcome::Cancelled);
    }
}

fn outcome_of(answer: &RawJson) -> CallOutcome {
    let Ok(message) = Message::read(answer.clone()) else { return CallOutcome::ProtocolError };
    let Kind::Response { outcome: Outcome::Result(result), .. } = &message.kind else {
        return CallOutcome::ProtocolError;
    };
    match pick(message.at(result), ["isError"]) {
        Ok([Some("true")]) => CallOutcome::ToolError,
        _ => CallOutcome::Ok,
    }
}
