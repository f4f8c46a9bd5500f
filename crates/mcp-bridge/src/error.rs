use std::sync::Arc;
use std::time::Duration;

use crate::era::{MODERN, UNSUPPORTED_VERSION};
use crate::json::{Malformed, RawJson, pick, quoted};

/// How a process ended, as whoever runs it can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// Such as `exit code 1` or `signal 9`.
    pub status: String,
    /// The last lines it wrote to stderr.
    pub stderr_tail: String,
}

/// Why a bridge ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndReason {
    /// The process ended.
    #[error("the server ended with {}{}", .0.status, tail(&.0.stderr_tail))]
    Exited(Exit),
    /// The server closed its stdout, and nobody said how it ended.
    #[error("the server closed its output")]
    OutputClosed,
    /// Its stdout could not be read.
    #[error("reading from the server failed: {0}")]
    ReadFailed(String),
    /// Its stdin could not be written.
    #[error("writing to the server failed: {0}")]
    WriteFailed(String),
    /// It never became usable.
    #[error("the handshake failed: {0}")]
    Handshake(#[from] HandshakeError),
    /// The bridge was closed, or nobody holds a handle of it any more.
    #[error("the bridge was closed")]
    Closed,
}

fn tail(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!("; its last lines on stderr: {stderr}") }
}

/// Why a server is not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// It did not answer in time.
    #[error("no answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// It answered with an error.
    #[error("the server refused: {0}")]
    Refused(String),
    /// Its answer is not a handshake's.
    #[error("the server's answer to {0} cannot be used")]
    Unusable(&'static str),
    /// It speaks no version that the bridge speaks.
    #[error("the server speaks only {0}")]
    NoCommonVersion(String),
}

/// Why a call has no answer of the server's. An error that the server itself answers is an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// What was sent is not a message.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The message is longer than allowed.
    #[error("the message has {bytes} bytes; {limit} are allowed")]
    TooLong {
        /// Its size.
        bytes: usize,
        /// The longest one allowed.
        limit: usize,
    },
    /// The server's answer was longer than allowed and was dropped.
    #[error("the server's answer is longer than the {limit} bytes allowed")]
    AnswerTooLong {
        /// The longest one allowed.
        limit: usize,
    },
    /// No answer in time. The server was told that nobody waits any more, and left alone otherwise.
    #[error("no answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// The client cancelled it. There is nothing to answer.
    #[error("the call was cancelled")]
    Cancelled,
    /// The process ended.
    #[error("{reason}")]
    Ended {
        /// Why.
        reason: Arc<EndReason>,
        /// Whether the server may have seen the call.
        sent: bool,
    },
    /// A request of the newer era names a version that the bridge does not speak.
    #[error("the protocol version {0:?} is not supported")]
    UnsupportedVersion(String),
    /// The server asked for input more often than a client is bothered with.
    #[error("the server asked for input {0} times without an answer")]
    TooManyRounds(usize),
}

impl CallError {
    /// Whether the same call can be made again without the risk of doing its work twice.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Ended { sent: false, .. })
    }

    /// The JSON-RPC code.
    pub fn code(&self) -> i64 {
        match self {
            Self::Malformed(malformed) => malformed.code(),
            Self::TooLong { .. } => -32600,
            Self::UnsupportedVersion(_) => UNSUPPORTED_VERSION,
            Self::TimedOut(_) => -32001,
            Self::Ended { .. } => -32000,
            Self::AnswerTooLong { .. } | Self::Cancelled | Self::TooManyRounds(_) => -32603,
        }
    }

    /// The message that tells a client. `None` where a client expects nothing: for a call it cancelled.
    pub fn answer_to(&self, request: &RawJson) -> Option<RawJson> {
        if *self == Self::Cancelled {
            return None;
        }
        let id = pick(request.as_str(), ["id"]).ok().and_then(|[id]| id).unwrap_or("null");
        let data = match self {
            Self::UnsupportedVersion(asked) => {
                format!(r#","data":{{"supported":["{MODERN}"],"requested":{}}}"#, quoted(asked))
            }
            _ => String::new(),
        };
        let (code, text) = (self.code(), quoted(&self.to_string()));
        Some(RawJson::known(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{text}{data}}}}}"#
        )))
    }
}

/// Why a client was not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The process is dedicated to another client.
    #[error("the server is dedicated to another client")]
    Taken,
}
