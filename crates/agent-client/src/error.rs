//! Why a call to an agent failed.

use std::time::Duration;

use emergent_protocol::FailureCode;
use tonic::{Code, Status};

/// Why a call to an agent failed.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// No stream could be opened, or it was lost during the call.
    #[error("the agent cannot be reached: {reason}")]
    Unreachable {
        /// What the transport said.
        reason: String,
        /// The call was certainly not executed.
        not_sent: bool,
    },
    /// The agent did not answer in time. What it was asked may still happen.
    #[error("{call} was given up after {limit:?}")]
    TimedOut {
        /// The call.
        call: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// The agent refused the handshake.
    #[error("the agent refused this control plane: {reason}")]
    Refused {
        /// What it said.
        reason: String,
    },
    /// The tool call failed inside the sandbox, with a reason the caller can act on.
    #[error("{message}")]
    Failed {
        /// The kind of failure.
        code: FailureCode,
        /// For people.
        message: String,
        /// The path it is about, if any.
        path: String,
        /// Names close to one that was not found.
        suggestions: Vec<String>,
    },
    /// The agent's answer makes no sense. Root in the sandbox can replace the agent.
    #[error("the agent's answer to {call} makes no sense: {reason}")]
    Malformed {
        /// The call.
        call: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

/// The longest text of an agent that is passed on.
const MAX_TEXT: usize = 4096;

fn bounded(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

impl AgentError {
    pub(crate) fn malformed(call: &'static str, reason: impl Into<String>) -> Self {
        Self::Malformed { call, reason: reason.into() }
    }

    pub(crate) fn from_status(call: &'static str, status: &Status) -> Self {
        if let Some((code, failure)) = FailureCode::read(status) {
            return Self::Failed {
                code,
                message: bounded(&failure.message),
                path: bounded(&failure.path),
                suggestions: failure.suggestions.iter().take(3).map(|name| bounded(name)).collect(),
            };
        }
        let reason = bounded(status.message());
        match status.code() {
            Code::Unauthenticated | Code::PermissionDenied => Self::Refused { reason },
            Code::Unavailable | Code::Cancelled | Code::Unknown => {
                Self::Unreachable { reason: describe(status, reason), not_sent: was_not_sent(status) }
            }
            Code::ResourceExhausted => Self::Failed {
                code: FailureCode::TooMany,
                message: reason,
                path: String::new(),
                suggestions: Vec::new(),
            },
            code => Self::malformed(call, format!("{code:?}: {reason}")),
        }
    }

    /// Whether the call certainly did not happen, so that repeating it is safe.
    pub fn is_not_sent(&self) -> bool {
        matches!(self, Self::Unreachable { not_sent: true, .. })
    }
}

/// hyper says "canceled" when a request never left because the connection had closed.
fn was_not_sent(status: &Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled) {
            return true;
        }
        source = error.source();
    }
    false
}

fn describe(status: &Status, message: String) -> String {
    match std::error::Error::source(status) {
        Some(source) => bounded(&format!("{message}: {source}")),
        None => message,
    }
}
