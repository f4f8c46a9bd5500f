//! Why a call to an agent failed.

use std::time::Duration;

use emergent_protocol::FailureCode;
use emergent_protocol::v1::Failure;
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
        /// What it is about.
        about: Box<FailureSubject>,
    },
    /// The sandbox's agent is older than this call. Stop and resume give it a new one.
    #[error("the agent in this sandbox is too old for {call}; stop and resume the workspace")]
    Unsupported {
        /// The call.
        call: &'static str,
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

/// What a failed tool call is about. Everything here was told by the sandbox and is bounded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailureSubject {
    /// The path, if any.
    pub path: String,
    /// Names close to one that was not found, or lines close to a text that was not.
    pub suggestions: Vec<String>,
    /// Lines of the file, 1-based.
    pub lines: Vec<u64>,
    /// Where in a pattern the mistake is, as a byte offset.
    pub position: Option<u64>,
    /// The field of the request, if it is about one.
    pub field: Option<String>,
}

impl FailureSubject {
    fn from_message(failure: &Failure) -> Self {
        Self {
            path: bounded(&failure.path),
            suggestions: failure.suggestions.iter().take(MAX_SUGGESTIONS).map(|name| bounded(name)).collect(),
            lines: failure.lines.iter().copied().take(MAX_LINES).collect(),
            position: failure.has_position.then_some(failure.position),
            field: (!failure.field.is_empty()).then(|| failure.field.chars().take(64).collect()),
        }
    }
}

/// The longest text of an agent that is passed on.
const MAX_TEXT: usize = 4096;

/// The most suggestions and line numbers of an agent that are passed on.
const MAX_SUGGESTIONS: usize = 20;
const MAX_LINES: usize = 100;

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
                about: Box::new(FailureSubject::from_message(&failure)),
            };
        }
        let reason = bounded(status.message());
        // What the agent says has no cause here. What has one was made up on this side because
        // HTTP/2 itself broke, and its code is not the agent's word.
        let is_said = std::error::Error::source(status).is_none();
        match status.code() {
            Code::Unauthenticated | Code::PermissionDenied if is_said => Self::Refused { reason },
            Code::Unavailable | Code::Cancelled | Code::Unknown => {
                Self::Unreachable { reason: describe(status, reason), not_sent: was_not_sent(status) }
            }
            Code::ResourceExhausted if is_said => {
                Self::Failed { code: FailureCode::TooMany, message: reason, about: Box::default() }
            }
            // A sandbox may hold an agent that is older than this server.
            Code::Unimplemented if is_said => Self::Unsupported { call },
            code => Self::malformed(call, format!("{code:?}: {reason}")),
        }
    }

    /// The kind of failure, where the call failed inside the sandbox.
    pub fn failure_code(&self) -> Option<FailureCode> {
        match self {
            Self::Failed { code, .. } => Some(*code),
            _ => None,
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
