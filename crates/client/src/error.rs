//! Why a call failed.

use serde_json::{Map, Value};

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server's address makes no sense.
    #[error("{url:?} is not the address of a server: {reason}")]
    InvalidUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The token cannot be sent.
    #[error("the token has characters that a header cannot carry")]
    InvalidToken,
    /// The server cannot be reached, or the connection was lost.
    #[error("cannot reach the server at {url}: {reason}")]
    Unreachable {
        /// Its address.
        url: String,
        /// What happened.
        reason: String,
    },
    /// The server refused or failed.
    #[error("{0}")]
    Api(ApiFailure),
    /// What answers is not this API.
    #[error("the answer with status {status} from {url} makes no sense: {reason}")]
    UnexpectedAnswer {
        /// Where it came from.
        url: String,
        /// Its status.
        status: u16,
        /// What is wrong with it.
        reason: String,
    },
}

impl ClientError {
    /// The server's code, where it was the server that refused or failed.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Api(failure) => Some(&failure.code),
            _ => None,
        }
    }
}

/// What the server said.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiFailure {
    /// The HTTP status.
    pub status: u16,
    /// For programs; stable.
    pub code: String,
    /// For people.
    pub message: String,
    /// What the code's description promises.
    pub details: Map<String, Value>,
    /// After how many seconds the same call may succeed.
    pub retry_after_seconds: Option<u64>,
    /// What the server's log calls this call.
    pub request_id: Option<String>,
}

impl std::fmt::Display for ApiFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}
