//! The control plane's side of the agent protocol.
//!
//! ```text
//!   AgentClient ──call──► Link (one authenticated HTTP/2 connection)
//!        │                  ▲
//!        └──dial when none──┘   AgentDialer gives a byte stream, Hello opens it
//! ```
//!
//! A client outlives its connections: when the stream is lost, the next call dials again,
//! and background processes are still there. The agent is not trusted: every answer is
//! bounded in size and time, and nothing in it is used as a host path.

mod client;
mod dial;
mod error;
mod exec;
mod files;
mod key;
mod link;
mod processes;
mod raw;

pub use client::{AgentClient, AgentInfo, Greeting};
pub use dial::{AgentDialer, AgentStream, ByteStream, DialError};
pub use error::AgentError;
pub use exec::{
    CommandSpec, ExecEvent, ExecOptions, ExecOutcome, ExecStream, Exit, Output, Program, StreamKind,
};
pub use files::{DirectoryListing, Entry, FileKind, FileStat, FileStream, Page, Written};
pub use key::AgentKey;
pub use link::Transport as RawTransport;
pub use processes::{OutputChunk, OutputFollower, ProcessInfo};
pub use raw::raw_stub;
