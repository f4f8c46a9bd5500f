use std::time::Duration;

use emergent_store::StoreError;
use emergent_types::ServerHealth;
use emergent_workspaces::{CreateError, LifecycleError};

use crate::registration::Problems;

/// Something asked of a hosted server was not done.
#[derive(Debug, thiserror::Error)]
pub enum HostingError {
    /// There is no such server.
    #[error("there is no MCP server {0:?}")]
    NotFound(String),
    /// Another server has this name.
    #[error("there is an MCP server {0:?} already")]
    NameTaken(String),
    /// There are as many as there may be.
    #[error("there are {0} MCP servers, and there may be no more: delete one that is not needed")]
    TooMany(usize),
    /// What was asked makes no sense.
    #[error(transparent)]
    Invalid(#[from] Problems),
    /// Its sandbox could not be made.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// Its sandbox could not be removed or resumed.
    #[error(transparent)]
    Lifecycle(#[from] LifecycleError),
    /// What was to be kept is not.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The control plane is going down.
    #[error("the server is shutting down")]
    ShuttingDown,
}

/// A call has no answer of the server's. An error that the server itself answers is an answer.
#[derive(Debug, thiserror::Error)]
pub enum CallFailure {
    /// There is no such server.
    #[error("there is no MCP server {0:?}")]
    NotFound(String),
    /// The method is the bridge's own, or makes sense only for a client that stays.
    #[error("the method {method:?} cannot be called: {reason}")]
    MethodRefused {
        /// Which.
        method: String,
        /// Why.
        reason: &'static str,
    },
    /// The server's registration does not allow this tool.
    #[error("tool {tool:?} of MCP server {server:?} is not allowed")]
    ToolRefused {
        /// Whose.
        server: String,
        /// Which.
        tool: String,
    },
    /// Its program does not run now.
    #[error("MCP server {server:?} is {health}: {reason}")]
    Unavailable {
        /// Which.
        server: String,
        /// How it is.
        health: ServerHealth,
        /// Why.
        reason: String,
        /// When it is started again, if that is known.
        retry_after: Option<Duration>,
    },
    /// Its program ended. The call is not repeated.
    #[error("MCP server {server:?}: {reason}")]
    Ended {
        /// Which.
        server: String,
        /// Why.
        reason: String,
        /// Whether it may have seen the call.
        sent: bool,
    },
    /// It did not answer in time.
    #[error("MCP server {server:?} did not answer within {} ms", .after.as_millis())]
    TimedOut {
        /// Which.
        server: String,
        /// How long it had.
        after: Duration,
    },
    /// The request is not one.
    #[error("{0}")]
    Malformed(String),
    /// What it answered cannot be passed on.
    #[error("MCP server {server:?}: {reason}")]
    Unusable {
        /// Which.
        server: String,
        /// Why.
        reason: String,
    },
    /// As many clients have a process of their own as may.
    #[error("MCP server {server:?} has {max} processes of clients, and there may be no more")]
    TooManyProcesses {
        /// Which.
        server: String,
        /// How many.
        max: usize,
    },
}
