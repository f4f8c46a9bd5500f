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
mod edit;
mod error;
mod exec;
mod files;
mod git;
mod key;
mod link;
mod part;
mod processes;
mod raw;
mod search;
mod stdio;
mod terminal;
mod tunnel;
mod upload;
mod watch;

pub use client::{AgentClient, AgentInfo, Greeting};
pub use dial::{AgentDialer, AgentStream, ByteStream, DialError};
pub use edit::{EditSpec, Edited, MatchRule};
pub use error::{AgentError, FailureSubject};
pub use exec::{
    CommandSpec, ExecEvent, ExecOptions, ExecOutcome, ExecStream, Exit, Output, OutputFile, Program,
    StreamKind,
};
pub use files::{DirectoryListing, Entry, FileKind, FileStat, FileStream, Page, Written};
pub use git::{
    Author, Broker, GitAction, GitAnswer, GitBranchRequest, GitBranches, GitChange, GitChangeKind,
    GitCheckedOut, GitCheckoutRequest, GitCloneRequest, GitCloned, GitCommit, GitCommitRequest,
    GitCommitScope, GitCommitted, GitDiff, GitDiffRequest, GitFetchRequest, GitFetched, GitFileDiff, GitLog,
    GitLogRequest, GitPullRequest, GitPulled, GitPushRequest, GitPushed, GitRefUpdate, GitStatus,
};
pub use key::AgentKey;
pub use link::Transport as RawTransport;
pub use processes::{OutputChunk, OutputFollower, ProcessInfo};
pub use raw::raw_stub;
pub use search::{GlobSpec, Globbed, GrepFile, GrepMatch, GrepOutput, GrepSpec, Grepped};
pub use stdio::{Stdio, StdioEvent, StdioInput, StdioOutput, StdioSpec};
pub use terminal::{Terminal, TerminalEvent, TerminalInput, TerminalOutput, TerminalSpec};
pub use tunnel::{ServiceOffer, ServiceRequest, TunnelStream};
pub use upload::UploadError;
pub use watch::{Change, ChangeKind, WatchStream};
